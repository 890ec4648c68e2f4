// Command bench compares metered requests of quire with a bare Fiber handler that returns the same
// bytes, in one run, in turns, on the same machine as the load generator (wrk).
//
// The account is on the Max plan with 100,000 free reads and 20,000 free creations and 1,000,000
// credits: the first requests are taken from the quota, the others are paid, each with its entry in the
// ledger. So nothing of the metering is left out. Afterwards the counters are compared with what wrk
// completed, and the billing journal is folded again from its first event.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"quire.dev/bench/internal/server"
	"quire.dev/bench/internal/wrk"
)

type bench struct {
	quire       string
	rounds      int
	duration    time.Duration
	connections int
	minGet      float64
	minCreate   float64
	smoke       bool

	folder     string // scripts, data and bodies; removed at the end
	adminToken string
	server     *server.Server
	bare       *server.Server
	account    string
	key        string
	completed  map[string]uint64 // by quota key, as wrk counted
	runs       map[string]int
}

func main() {
	b := &bench{completed: map[string]uint64{}, runs: map[string]int{}}
	flag.StringVar(&b.quire, "quire", "bin/quire", "binary to measure")
	flag.IntVar(&b.rounds, "rounds", 3, "turns of each")
	flag.DurationVar(&b.duration, "duration", 8*time.Second, "of one turn")
	flag.IntVar(&b.connections, "connections", 256, "of wrk")
	flag.Float64Var(&b.minGet, "min-get", 0.25, "least share of the bare handler's rate, for reads")
	flag.Float64Var(&b.minCreate, "min-create", 0.10, "likewise for creations")
	flag.BoolVar(&b.smoke, "smoke", false, "one short turn, whose rates are not judged")
	bareGet := flag.String("serve-bare-get", "", "internal: be the bare handler, with this file as the answer to reads")
	bareCreate := flag.String("serve-bare-create", "", "internal: likewise to creations")
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
	for _, s := range []*server.Server{b.bare, b.server} {
		if s != nil {
			s.Kill()
		}
	}
	if b.folder != "" {
		_ = os.RemoveAll(b.folder)
	}
}

// memoryLimit is the same for both sides.
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
	if err := b.server.Stop(); err != nil {
		return err
	}
	fmt.Printf("\nmedian ratio to the bare handler: get %.3f (at least %.2f), create %.3f (at least %.2f)\n", get, b.minGet, create, b.minCreate)
	if !b.smoke && (get < b.minGet || create < b.minCreate) {
		return fmt.Errorf("slower than asked for")
	}
	return nil
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
	b.adminToken = rand.Text()
	b.server, err = server.Start(ctx, "quire", b.quire, nil, append(b.settings("127.0.0.1:0"), memoryLimit))
	if err != nil {
		return err
	}
	var created struct {
		Account struct{ ID string }
		APIKey  string
	}
	if err := b.call(ctx, http.MethodPost, "/api/admin/accounts", b.adminToken, `{"email":"bench@example.org","tier":"max"}`, &created); err != nil {
		return err
	}
	b.account, b.key = created.Account.ID, created.APIKey
	return b.call(ctx, http.MethodPost, "/api/admin/accounts/"+b.account+"/credits", b.adminToken, `{"amount":"1000000","reason":"bench"}`, nil)
}

func (b *bench) settings(listen string) []string {
	return []string{"QUIRE_DATA=" + filepath.Join(b.folder, "data"), "QUIRE_LISTEN=" + listen, "QUIRE_ADMIN_TOKEN=" + b.adminToken}
}

// startBare makes a paste, and starts the bare handler with quire's answers to its creation and read.
func (b *bench) startBare(ctx context.Context) (id string, err error) {
	var made, read json.RawMessage
	if err := b.call(ctx, http.MethodPost, "/api/dev/paste-lite/create", b.key, createBody, &made); err != nil {
		return "", err
	}
	var paste struct{ ID string }
	if err := json.Unmarshal(made, &paste); err != nil {
		return "", err
	}
	if err := b.call(ctx, http.MethodGet, "/api/dev/paste-lite/get/"+paste.ID, b.key, "", &read); err != nil {
		return "", err
	}
	b.completed["pasteLite.create"]++
	b.completed["pasteLite.get"]++
	getFile, createFile := filepath.Join(b.folder, "get.json"), filepath.Join(b.folder, "create.json")
	if err := os.WriteFile(getFile, read, 0o600); err != nil {
		return "", err
	}
	if err := os.WriteFile(createFile, made, 0o600); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	b.bare, err = server.Start(ctx, "bare handler", self, []string{"-serve-bare-get", getFile, "-serve-bare-create", createFile}, []string{memoryLimit})
	return paste.ID, err
}

// load is what wrk sends.
type load struct{ script, path string }

func (b *bench) wrk(ctx context.Context, base string, l load) (wrk.Result, error) {
	return wrk.Generator{Folder: b.folder, Connections: b.connections, Duration: b.duration}.Run(ctx, wrk.Load{
		Script: l.script, URL: base + l.path, Environ: []string{"BENCH_KEY=" + b.key, "BENCH_BODY=" + createBody},
	})
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// compare runs the load against both in turns and returns the median of the turns' ratios.
func (b *bench) compare(ctx context.Context, title, quotaKey string, l load) (float64, error) {
	var ratios []float64
	for round := range b.rounds {
		bare, err := b.wrk(ctx, b.bare.URL, l)
		if err != nil {
			return 0, err
		}
		metered, err := b.wrk(ctx, b.server.URL, l)
		if err != nil {
			return 0, err
		}
		b.completed[quotaKey] += metered.Requests
		b.runs[quotaKey]++
		ratio := metered.Rate() / bare.Rate()
		ratios = append(ratios, ratio)
		fmt.Printf("%s  turn %d  bare %8.0f/s  p50 %s p99 %s   quire %8.0f/s  p50 %s p99 %s   ratio %.3f\n", title, round+1,
			bare.Rate(), millis(bare.P50), millis(bare.P99), metered.Rate(), millis(metered.P50), millis(metered.P99), ratio)
		if n := bare.Errors(); n > 0 {
			return 0, fmt.Errorf("bare handler: %d errors: %+v", n, bare)
		}
		if n := metered.Errors(); n > 0 {
			return 0, fmt.Errorf("quire: %d errors or answers that were no success: %+v", n, metered)
		}
	}
	return median(ratios), nil
}

func millis(micros uint64) string { return fmt.Sprintf("%6.2f ms", float64(micros)/1000) }

// checkCounters holds the account's counters to what wrk completed. wrk leaves up to one request a
// connection unread when a turn ends, which quire may have counted.
func (b *bench) checkCounters(ctx context.Context) error {
	var account struct {
		Usage map[string]struct{ Used uint64 }
	}
	if err := b.call(ctx, http.MethodGet, "/api/admin/accounts/"+b.account, b.adminToken, "", &account); err != nil {
		return err
	}
	fmt.Println()
	for key, completed := range b.completed {
		used := account.Usage[key].Used
		most := completed + uint64(b.runs[key]*b.connections)
		fmt.Printf("%s: wrk completed %d, quire counted %d (at most %d)\n", key, completed, used, most)
		if used < completed || used > most {
			return fmt.Errorf("%s: counted %d, want %d to %d", key, used, completed, most)
		}
	}
	return nil
}

// audit folds the billing journal again, by the command that people use.
func (b *bench) audit(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, b.quire, "audit")
	cmd.Env = append(server.CleanEnvironment(), b.settings(strings.TrimPrefix(b.server.URL, "http://"))...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	return nil
}

// call speaks JSON to quire.
func (b *bench) call(ctx context.Context, method, path, token, body string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, b.server.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, data)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}
