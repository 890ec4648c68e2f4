package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/tools/bench/internal/account"
	"quire.dev/tools/bench/internal/load"
	"quire.dev/tools/bench/internal/machine"
	"quire.dev/tools/bench/internal/wrk"
	"quire.dev/tools/cluster"
	"quire.dev/tools/cluster/scrape"
)

const (
	// processLimit bounds the start and the stop of a server with few data. With many, a start is what is measured.
	processLimit = 5 * time.Minute
)

// server is quire on fresh data, with default settings, and the requests that it must have counted.
type server struct {
	bench    *bench
	name     string
	settings []string
	folder   string // data and log
	token    string
	process  *cluster.Process
	accounts []*account.Account
}

// startServer starts quire on fresh data. settings ("NAME=value") come beside those that every server has.
func (b *bench) startServer(ctx context.Context, name string, settings ...string) (*server, error) {
	b.servers++
	s := &server{bench: b, name: name, settings: settings, folder: filepath.Join(b.folder, fmt.Sprint(b.servers)), token: rand.Text()}
	if err := os.Mkdir(s.folder, 0o700); err != nil {
		return nil, err
	}
	b.running = append(b.running, s)
	return s, s.start(ctx)
}

func (s *server) data() string { return filepath.Join(s.folder, "data") }

// start starts quire on the data that it has. An earlier run has ended.
func (s *server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	log := filepath.Join(s.folder, "log")
	if err := os.RemoveAll(log); err != nil { // StartServer looks for the address in it
		return err
	}
	var err error
	s.process, err = cluster.StartServer(ctx, log, append([]string{
		"QUIRE_DATA=" + s.data(), "QUIRE_LISTEN=127.0.0.1:0", "QUIRE_ADMIN_TOKEN=" + s.token,
	}, s.settings...), s.bench.quire)
	return err
}

// close ends the server and removes its data.
func (s *server) close() error {
	var err error
	if s.process != nil && s.process.Running() {
		err = s.process.Kill()
	}
	return errors.Join(err, os.RemoveAll(s.folder))
}

func (s *server) admin() admin.Client { return admin.Client{Base: s.process.URL(), Token: s.token} }

// api calls as an account. The edge takes an API key in the same header as the administrator's token.
func (s *server) api(a *account.Account) admin.Client {
	return admin.Client{Base: s.process.URL(), Token: a.Key}
}

// account creates an account whose counters are checked in the end.
func (s *server) account(ctx context.Context, tier string) (*account.Account, error) {
	a, err := account.New(ctx, s.admin(), fmt.Sprintf("bench-%d@example.org", len(s.accounts)), tier)
	if err == nil {
		s.accounts = append(s.accounts, a)
	}
	return a, err
}

// paste makes a quick paste and returns its id.
func (s *server) paste(ctx context.Context, a *account.Account) (string, error) {
	var made struct{ ID string }
	err := s.api(a).Call(ctx, http.MethodPost, bareCreate, json.RawMessage(load.CreateBody()), &made)
	a.Succeeded(account.Create)
	return made.ID, err
}

// check compares the counters of all accounts with the requests that were sent, audits the journals, and stops the server in
// order. What does not agree makes the run void.
func (s *server) check(ctx context.Context) error {
	for _, a := range s.accounts {
		used, err := a.Used(ctx, s.admin())
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(a.Counted)) {
			if err := a.Counted[key].Check(key, used[key].Used); err != nil {
				s.bench.void("%s: %v", s.name, err)
			}
		}
		for key, u := range used {
			if _, ok := a.Counted[key]; !ok && u.Used > 0 {
				s.bench.void("%s: %d requests of %s counted, and none was sent", s.name, u.Used, key)
			}
		}
	}
	started := time.Now()
	audit, err := s.admin().Audit(ctx, admin.AuditOptions{}, func(_, _ uint64) {})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	var entries uint64
	for _, p := range audit.Partitions {
		entries += p.Entries
	}
	if audit.Match == nil || !*audit.Match || entries == 0 {
		s.bench.void("%s: the audit of %d entries does not match", s.name, entries)
	}
	s.bench.printf("%s: counters compared, audit of %d entries in %.1f s\n",
		s.name, entries, time.Since(started).Seconds())
	return s.stop(ctx)
}

func (s *server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	return s.process.Stop(ctx)
}

func (s *server) settle(ctx context.Context) error {
	return machine.Settle(ctx, machine.Process(s.process.PID()).CPUSeconds)
}

// requests are what wrk sends.
type requests struct {
	script, path string
	environ      []string
}

func getLoad(id string) requests { return requests{script: "get.lua", path: bareGet + id} }

func createLoad() requests {
	return requests{script: "create.lua", path: bareCreate, environ: []string{"BENCH_BODY=" + load.CreateBody()}}
}

// turn has wrk send requests of an account for a while. Answers that are no success make the run void.
func (s *server) turn(ctx context.Context, a *account.Account, quotaKey string, l requests, connections int, duration time.Duration) (wrk.Result, error) {
	r, err := s.bench.wrk(ctx, s.process.URL(), a.Key, l, connections, duration)
	if err != nil {
		return r, err
	}
	a.Count(quotaKey, r, connections)
	if r.Errors() > 0 {
		s.bench.void("%s: %d of %d requests of %s without a success: %+v", s.name, r.Errors(), r.Requests, quotaKey, r)
	}
	return r, nil
}

// wrk sends requests to any server.
func (b *bench) wrk(ctx context.Context, base, key string, l requests, connections int, duration time.Duration) (wrk.Result, error) {
	// wrk needs a connection for each of its threads.
	return wrk.Generator{Folder: b.folder, Connections: connections, Threads: min(2, connections), Duration: duration}.Run(ctx, wrk.Load{
		Script: l.script, URL: base + l.path, Environ: append([]string{"BENCH_KEY=" + key}, l.environ...),
	})
}

// metric reads a metric without labels, or with the labels that name has.
func (s *server) metric(ctx context.Context, name string) (float64, error) {
	page, err := scrape.Get(ctx, s.process.URL()+"/metrics")
	if err != nil {
		return 0, err
	}
	return parseMetric(page, name)
}

func parseMetric(page []byte, name string) (float64, error) {
	for line := range bytes.Lines(page) {
		if rest, ok := strings.CutPrefix(string(line), name+" "); ok {
			var value float64
			if _, err := fmt.Sscan(rest, &value); err != nil {
				return 0, fmt.Errorf("metric %s: %w", name, err)
			}
			return value, nil
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

// mallocs is the number of objects that the process has allocated.
func (s *server) mallocs(ctx context.Context) (float64, error) {
	return s.metric(ctx, "go_memstats_mallocs_total")
}

// journalBytes is the size of the billing journal.
func (s *server) journalBytes() (int64, error) {
	return machine.Size(s.data(), func(path string) bool { return strings.Contains(path, "/streams/BILLING_") })
}

func (s *server) resident() (float64, error) {
	bytes, err := machine.Process(s.process.PID()).Resident()
	return float64(bytes) / (1 << 20), err
}

// startBare starts the bare handler with answers of quire, and for a group with a file, the path of that.
func (b *bench) startBare(ctx context.Context, answers []recorded) (*cluster.Process, error) {
	data, err := json.Marshal(answers)
	if err != nil {
		return nil, err
	}
	b.servers++
	list := filepath.Join(b.folder, fmt.Sprintf("bare-%d.json", b.servers))
	if err := os.WriteFile(list, data, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, processLimit)
	defer cancel()
	bare, err := cluster.StartServer(ctx, list+".log", nil, self, "-serve-bare", list)
	if err == nil {
		b.bare = append(b.bare, bare)
	}
	return bare, err
}

// startYardstick starts a bare handler that repeats the answers to a read of a paste and to a creation.
func (s *server) startYardstick(ctx context.Context, a *account.Account, id string) (*cluster.Process, error) {
	get, err := s.request(ctx, http.MethodGet, bareGet+id, a.Key, "")
	if err != nil {
		return nil, err
	}
	create, err := s.request(ctx, http.MethodPost, bareCreate, a.Key, load.CreateBody())
	if err != nil {
		return nil, err
	}
	var answers []recorded
	for _, of := range []struct {
		request        *http.Request
		path, quotaKey string
	}{{get, bareGet + ":ref", account.Get}, {create, bareCreate, account.Create}} {
		answer, err := record(of.request, of.path)
		if err != nil {
			return nil, err
		}
		if answer.Status/100 != 2 {
			return nil, fmt.Errorf("%s %s: %d %s", of.request.Method, of.path, answer.Status, answer.Body)
		}
		a.Succeeded(of.quotaKey)
		answers = append(answers, answer)
	}
	return s.bench.startBare(ctx, answers)
}

// request makes a request of an account, whose answer is to be recorded.
func (s *server) request(ctx context.Context, method, path, key, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.process.URL()+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("x-api-key", key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}
