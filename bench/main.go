// Command bench compares metered requests of quire with a bare Fiber handler that returns the same bytes. The two take
// turns in one run, on the machine of the load generator (wrk).
//
// The account is on the Max plan, with 100,000 free reads, 20,000 free creations and 1,000,000 credits. The first requests
// are taken from the quota. Credits pay the others, each with an entry in the ledger, so that the whole metering is
// measured. Afterwards the counters are compared with the number of requests that wrk completed, and the billing journal
// is audited.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"quire.dev/bench/internal/wrk"
	"quire.dev/cluster"
	"quire.dev/pkg/admin"
)

type bench struct {
	quire       string
	rounds      int
	duration    time.Duration
	connections int
	minGet      float64
	minCreate   float64
	smoke       bool

	folder  string // scripts, data, bodies and logs; removed at the end
	server  *cluster.Process
	bare    *cluster.Process
	admin   admin.Client // of the administrator
	client  admin.Client // with the API key of the account
	account string
	counted map[string]wrk.Tally // by quota key
}

func main() {
	b := &bench{counted: map[string]wrk.Tally{}}
	flag.StringVar(&b.quire, "quire", "bin/quire", "program to measure")
	flag.IntVar(&b.rounds, "rounds", 3, "turns of each")
	flag.DurationVar(&b.duration, "duration", 8*time.Second, "length of one turn")
	flag.IntVar(&b.connections, "connections", 256, "connections of wrk")
	flag.Float64Var(&b.minGet, "min-get", 0.25, "least share of the bare handler's rate that reads must reach")
	flag.Float64Var(&b.minCreate, "min-create", 0.10, "least share of the bare handler's rate that creations must reach")
	flag.BoolVar(&b.smoke, "smoke", false, "one short turn, with no least share")
	bareGet := flag.String("serve-bare-get", "", "internal: run the bare handler, which answers reads with this file")
	bareCreate := flag.String("serve-bare-create", "", "internal: file with which the bare handler answers creations")
	flag.Parse()
	if *bareGet != "" {
		exit(serveBare(*bareGet, *bareCreate))
	}
	if b.smoke {
		b.rounds, b.duration = 1, 2*time.Second
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := b.run(ctx)
	if err != nil && b.server != nil {
		fmt.Fprintln(os.Stderr, b.server.Tail()) // its log is removed
	}
	b.clean()
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (b *bench) clean() {
	for _, p := range []*cluster.Process{b.bare, b.server} {
		if p != nil && p.Running() {
			_ = p.Kill()
		}
	}
	if b.folder != "" {
		_ = os.RemoveAll(b.folder)
	}
}

// memoryLimit is a setting of both servers.
const memoryLimit = "GOMEMLIMIT=350MiB"

const createBody = `{"title":"bench","content":"The quick brown fox jumps over the lazy dog.","language":"plaintext","visibility":"unlisted"}`

func (b *bench) run(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	id, err := b.startBare(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("wrk -t2 -c%d, %d turns of %s each; account: Max plan, 1,000,000 credits (quota first, then credits)\n\n",
		b.connections, b.rounds, b.duration)
	get, err := b.compare(ctx, "GET  paste-lite/get   ", "pasteLite.get", load{script: "get.lua", path: "/api/dev/paste-lite/get/" + id})
	if err != nil {
		return err
	}
	create, err := b.compare(ctx, "POST paste-lite/create", "pasteLite.create",
		load{script: "create.lua", path: "/api/dev/paste-lite/create"})
	if err != nil {
		return err
	}
	if err := b.checkCounters(ctx); err != nil {
		return err
	}
	if err := b.audit(ctx); err != nil {
		return err
	}
	stopping, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	if err := b.server.Stop(stopping); err != nil {
		return err
	}
	fmt.Printf("\nmedian ratio to the bare handler: get %.3f (at least %.2f), create %.3f (at least %.2f)\n", get, b.minGet, create, b.minCreate)
	if !b.smoke && (get < b.minGet || create < b.minCreate) {
		return fmt.Errorf("quire is too slow")
	}
	return nil
}

// processLimit bounds the start and the stop of a server.
const processLimit = time.Minute

func (b *bench) start(ctx context.Context, name string, settings []string, program string, args ...string) (*cluster.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	return cluster.StartServer(ctx, filepath.Join(b.folder, name+".log"), append(settings, memoryLimit), program, args...)
}

// prepare starts quire on fresh data and makes the account.
func (b *bench) prepare(ctx context.Context) error {
	var err error
	if b.folder, err = os.MkdirTemp("", "quire-bench-"); err != nil {
		return err
	}
	if err := wrk.Unpack(b.folder); err != nil {
		return err
	}
	b.admin.Token = rand.Text()
	if b.server, err = b.start(ctx, "quire", b.settings("127.0.0.1:0"), b.quire); err != nil {
		return err
	}
	b.admin.Base = b.server.URL()
	created, err := b.admin.CreateAccount(ctx, admin.NewAccount{Email: "bench@example.org", Tier: "max"}, "")
	if err != nil {
		return err
	}
	// The edge takes an API key in the same header as the administrator's token.
	b.account, b.client = created.Account.ID, admin.Client{Base: b.admin.Base, Token: created.APIKey}
	grant := map[string]string{"amount": "1000000", "reason": "bench"}
	return b.admin.Call(ctx, http.MethodPost, "/api/admin/accounts/"+b.account+"/credits", grant, new(json.RawMessage))
}

func (b *bench) settings(listen string) []string {
	return []string{"QUIRE_DATA=" + filepath.Join(b.folder, "data"), "QUIRE_LISTEN=" + listen, "QUIRE_ADMIN_TOKEN=" + b.admin.Token}
}

// startBare makes a paste, and starts the bare handler with the answers of quire to the creation and a read.
func (b *bench) startBare(ctx context.Context) (id string, err error) {
	var made, read json.RawMessage
	if err := b.client.Call(ctx, http.MethodPost, "/api/dev/paste-lite/create", json.RawMessage(createBody), &made); err != nil {
		return "", err
	}
	var paste struct{ ID string }
	if err := json.Unmarshal(made, &paste); err != nil {
		return "", err
	}
	if err := b.client.Call(ctx, http.MethodGet, "/api/dev/paste-lite/get/"+paste.ID, nil, &read); err != nil {
		return "", err
	}
	b.counted["pasteLite.create"], b.counted["pasteLite.get"] = wrk.Tally{Succeeded: 1}, wrk.Tally{Succeeded: 1}
	getFile, createFile := filepath.Join(b.folder, "get.json"), filepath.Join(b.folder, "create.json")
	if err := errors.Join(os.WriteFile(getFile, read, 0o600), os.WriteFile(createFile, made, 0o600)); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	b.bare, err = b.start(ctx, "bare", nil, self, "-serve-bare-get", getFile, "-serve-bare-create", createFile)
	return paste.ID, err
}

// load is what wrk sends.
type load struct{ script, path string }

func (b *bench) wrk(ctx context.Context, base string, l load) (wrk.Result, error) {
	return wrk.Generator{Folder: b.folder, Connections: b.connections, Duration: b.duration}.Run(ctx, wrk.Load{
		Script: l.script, URL: base + l.path, Environ: []string{"BENCH_KEY=" + b.client.Token, "BENCH_BODY=" + createBody},
	})
}

// compare sends the load to both servers in turns and returns the median ratio of their rates.
func (b *bench) compare(ctx context.Context, title, quotaKey string, l load) (float64, error) {
	var ratios []float64
	for round := range b.rounds {
		bare, err := b.wrk(ctx, b.bare.URL(), l)
		if err != nil {
			return 0, err
		}
		metered, err := b.wrk(ctx, b.server.URL(), l)
		if err != nil {
			return 0, err
		}
		b.counted[quotaKey] = b.counted[quotaKey].With(metered, b.connections)
		ratio := metered.Rate() / bare.Rate()
		ratios = append(ratios, ratio)
		fmt.Printf("%s  turn %d  bare %8.0f/s  p50 %s p99 %s   quire %8.0f/s  p50 %s p99 %s   ratio %.3f\n", title, round+1,
			bare.Rate(), millis(bare.P50), millis(bare.P99), metered.Rate(), millis(metered.P50), millis(metered.P99), ratio)
		if n := bare.Errors(); n > 0 {
			return 0, fmt.Errorf("bare handler: %d errors: %+v", n, bare)
		}
		if n := metered.Errors(); n > 0 {
			return 0, fmt.Errorf("quire: %d errors or answers other than 2xx: %+v", n, metered)
		}
	}
	return wrk.Median(ratios), nil
}

func millis(micros uint64) string { return fmt.Sprintf("%6.2f ms", float64(micros)/1000) }

// checkCounters compares the counters of the account with the number of requests that wrk completed.
func (b *bench) checkCounters(ctx context.Context) error {
	var account struct {
		Usage map[string]struct{ Used uint64 }
	}
	if err := b.admin.Call(ctx, http.MethodGet, "/api/admin/accounts/"+b.account, nil, &account); err != nil {
		return err
	}
	fmt.Println()
	for key, t := range b.counted {
		used := account.Usage[key].Used
		fmt.Printf("%s: wrk completed %d, quire counted %d (at most %d)\n", key, t.Succeeded, used, t.Most())
		if err := t.Check(key, used); err != nil {
			return err
		}
	}
	return nil
}

// audit folds the billing journal again from its first event, by the command that operators use.
func (b *bench) audit(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, b.quire, "audit")
	cmd.Env = cluster.Environment(b.settings(strings.TrimPrefix(b.server.URL(), "http://"))...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}
