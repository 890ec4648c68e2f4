// Package chaos has the failure runs of a cluster: `make chaos-cluster`. Each process has a network namespace of its
// own. While a crowd of clients works, one thing fails. Then everything that was acknowledged is compared with what is
// stored. The gaps that clients saw are reported, and do not fail the run. A fault that must go unnoticed fails the run if
// a call gets no answer.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/trace/tracetest"
	"quire.dev/tools/cluster"
	"quire.dev/tools/cluster/load"
)

var (
	run   = flag.Bool("chaos", false, "run the failure runs, for which `make chaos-cluster` prepares this machine")
	only  = flag.String("chaos.only", "", "regular expression of the faults to run")
	store = flag.String("chaos.store", cluster.PostgreSQL, "server of the read models: postgres or mongo")
	seed  = flag.Uint64("chaos.seed", 0, "seed of the clients' choices; 0: one is drawn, and printed")
	quiet = flag.Duration("chaos.hold", 8*time.Second, "how long a fault lasts")
	keep  = flag.String("chaos.dir", "", "folder of data and logs, which is kept; default: a temporary one")
)

const (
	partitions   = 4
	startLimit   = 2 * time.Minute
	recoverLimit = 90 * time.Second
	settleLimit  = 4 * time.Minute // an unsettled hold is closed after two minutes
)

// TestFaults injects one fault after the other into one cluster.
func TestFaults(t *testing.T) {
	if !*run {
		t.Skip("failure runs: make chaos-cluster")
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(faults(), func(f fault) bool { return wanted.MatchString(f.name) }) {
		t.Skip("none is among FAULTS")
	}
	b := newBench(t, "")
	var table strings.Builder
	for _, f := range faults() {
		if wanted.MatchString(f.name) {
			t.Run(f.name, func(t *testing.T) { b.try(t, f, &table) })
		}
	}
	t.Run("at rest", b.rest)
	t.Logf("what clients saw (seed %d, %s a fault):\n%s%s", *seed, *quiet, heading, table.String())
}

// bench is a cluster and its clients.
type bench struct {
	c       *cluster.Cluster
	load    *load.Load
	dir     string
	traces  *tracetest.Collector
	shifted time.Duration // how far the services' clocks are ahead
}

// newBench starts a cluster and the clients' accounts, and draws their seed if none is given. bin is the folder of the services' programs, "" for the one of this version.
func newBench(t *testing.T, bin string) *bench {
	t.Helper()
	if *seed == 0 {
		*seed = 1 + rand.Uint64N(1_000_000)
	}
	t.Logf("to repeat these choices of the clients: CHAOSFLAGS='-chaos.seed %d'", *seed)
	dir := filepath.Join(*keep, t.Name())
	if *keep == "" {
		dir = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	mountDisks(t, dir)
	traces := &tracetest.Collector{}
	collector := httptest.NewUnstartedServer(traces)
	if collector.Listener, err = net.Listen("tcp", ":0"); err != nil { // the bridge begins with the cluster
		t.Fatal(err)
	}
	collector.Start()
	t.Cleanup(collector.Close)
	c, err := cluster.Start(ctx, cluster.Options{
		Root: root, Bin: bin, Dir: dir, Partitions: partitions, Isolated: true, Store: *store, Standby: *store == cluster.PostgreSQL,
		Settings: map[string]string{
			"QUIRE_TRUSTED_PROXIES": cluster.Clients, // so that clients can have sources of their own
			"QUIRE_DEV":             "1",             // so that a fault can shift the clock
			// Requests are traced whose clients ask for it.
			"OTEL_EXPORTER_OTLP_ENDPOINT": fmt.Sprintf("http://%s:%d", strings.TrimSuffix(cluster.Clients, "/32"), collector.Listener.Addr().(*net.TCPAddr).Port),
			"OTEL_TRACES_SAMPLER_ARG":     "0",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("stop the cluster: %v", err)
		}
	})
	var api []byte // of an earlier version
	if bin != "" {
		if api, err = os.ReadFile(filepath.Join(bin, "openapi.yaml")); err != nil {
			t.Fatal(err)
		}
	}
	// The clients pause between calls, to leave processor time to the processes that have to recover.
	l, err := load.New(ctx, load.Config{
		Bases: c.Edges(), AdminToken: c.AdminToken(), Seed: *seed, Workers: 6, Pace: 20 * time.Millisecond, Sources: true, API: api,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{c: c, load: l, dir: dir, traces: traces}
}

// try injects a fault while the clients work, waits until everything works again, and verifies.
func (b *bench) try(t *testing.T, f fault, table *strings.Builder) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); b.load.Run(ctx) }()
	b.awaitWork(t)
	b.load.Mark()
	if err := f.inject(t, b); err != nil {
		t.Errorf("%s: %v", f.name, err)
	}
	b.awaitReady(t)
	b.awaitWork(t)
	report := b.load.Gaps()
	stop()
	<-done
	table.WriteString(row(f.name, report))
	if f.unnoticed {
		for _, s := range report {
			if s.Base == load.AllBases && s.Unknown > 0 {
				t.Errorf("%s: %d calls of kind %s had no answer; each must have one", f.name, s.Unknown, s.Kind)
			}
		}
	}
	t.Logf("\n%s", report)
	b.verify(t, recoverLimit)
}

const heading = "fault                          longest gap between two successes: read   lite  paste   file  admin    503s  unknown\n"

func row(name string, r load.Report) string {
	line := fmt.Sprintf("%-62s", name)
	var unavailable, unknown int64
	for _, kind := range []load.Kind{load.Read, load.Lite, load.Paste, load.File, load.Admin} {
		s := r.Of(kind, load.AllBases)
		line += fmt.Sprintf(" %5.1fs", s.Gap.Seconds())
		unavailable += s.Unavailable
		unknown += s.Unknown
	}
	return line + fmt.Sprintf(" %7d %8d\n", unavailable, unknown)
}

// awaitWork returns once calls of each kind have succeeded several times more.
func (b *bench) awaitWork(t *testing.T) {
	t.Helper()
	for _, kind := range []load.Kind{load.Read, load.Lite, load.Paste, load.File, load.Admin} {
		more := b.load.Acked(kind) + 5
		eventually.NoError(t, "calls of kind "+string(kind)+" succeed", func() error {
			if got := b.load.Acked(kind); got < more {
				return fmt.Errorf("%d successes, want %d", got, more)
			}
			return nil
		})
	}
}

// awaitReady returns once every process is ready.
func (b *bench) awaitReady(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), recoverLimit)
	defer cancel()
	for _, p := range b.c.Processes() {
		if !p.Running() {
			t.Fatalf("%s does not run:\n%s", p.Name(), p.Tail())
		}
		if err := p.AwaitReady(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// verify compares what is stored with what was acknowledged. No client may be at work.
func (b *bench) verify(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := errors.Join(b.load.Verify(ctx), b.load.Audit(ctx)); err != nil {
		t.Error(err)
	}
}

// rest waits until every call has its outcome and no hold is open, and verifies once more.
func (b *bench) rest(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), settleLimit)
	defer cancel()
	if err := b.load.Settled(ctx, b.openHolds); err != nil {
		t.Error(err)
	}
	b.verify(t, settleLimit) // all that is known
	for _, p := range b.c.Processes("nats") {
		log, err := os.ReadFile(p.Log())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "Violation") {
				t.Errorf("%s refused a service something that it needs: %s", p.Name(), line)
				break
			}
		}
	}
}

// openHolds counts the open holds of all partitions, once for each replica.
func (b *bench) openHolds(ctx context.Context) (int64, error) {
	var bases []string
	for _, p := range b.c.Processes("billing") {
		bases = append(bases, p.Ops())
	}
	return load.OpenHolds(ctx, bases...)
}

// account creates an account on the Max plan, and returns its API key.
func (b *bench) account(t *testing.T, email string) string {
	t.Helper()
	var made struct{ APIKey string }
	eventually.NoError(t, "an account", func() error {
		_, err := b.call(t.Context(), http.MethodPost, "/api/admin/accounts", fmt.Sprintf(`{"email": %q, "tier": "max"}`, email),
			http.StatusCreated, &made, "Authorization", "Bearer "+b.c.AdminToken(), "Content-Type", "application/json")
		return err
	})
	return made.APIKey
}

// call sends a request to the first edge, with headers as names and values, and decodes the answer into result unless that is nil.
func (b *bench) call(ctx context.Context, method, path, body string, want int, result any, headers ...string) (http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.c.Edges()[0]+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return nil, fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if result != nil {
		err = json.NewDecoder(response.Body).Decode(result)
	}
	return response.Header, err
}
