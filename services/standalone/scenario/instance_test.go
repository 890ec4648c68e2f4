// Package scenario has the scenario tests: they speak HTTP to a whole Quire. Their expectations are written from
// docs/api.md, not taken from the product's own tables, and every answer is held to docs/openapi.yaml.
//
// Each test runs against one process, and with `-args -processes=many` against a cluster with two edges. Successive
// requests then go to the two in turn. With `-args -without=all` the services of one process share nothing and use NATS alone
// (inprocess.Shared). No test knows in which mode it runs.
package scenario

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/services/edge"
	"quire.dev/services/standalone/internal/quiretest"
	"quire.dev/tools/cluster/load"
)

// quire is a whole Quire, as one process or as many.
type quire interface {
	// boot starts it on the data that it has and returns once it serves. After an error nothing but its stores runs.
	boot(ctx context.Context, settings map[string]string) error
	// stop ends it in order. Stores that are separate processes run on.
	stop(ctx context.Context) error
	// close ends everything for good, and returns the faults that it finds.
	close() error
	// diagnosis is the part of its logs that may explain a failure.
	diagnosis() string

	edges() []string     // base URLs
	operators() []string // bases of /livez, /readyz and /metrics
	publicURL() string
	adminToken() string

	journal() []restarter                                      // the servers of the journal
	readModels(ctx context.Context, condition readModel) error // of all services
	killSenders(ctx context.Context) error                     // what posts to webhooks, and start it again
	heal(ctx context.Context) error                            // as Kubernetes would, once a full disk has room again
	emptyBytes() int64                                         // disk space of a Quire without data
}

// restarter is a server that can be stopped and started.
type restarter interface {
	Restart(ctx context.Context) error
}

// readModel is the condition of the read models.
type readModel int

const (
	works readModel = iota
	fails
	hangs
)

// instance is a Quire and the tests' client of it.
type instance struct {
	quire
	settings   map[string]string
	client     *http.Client
	adminToken string
	public     string // the beginning of the URLs in answers
	bases      []string
	next       atomic.Uint64
}

// option changes the setup of an instance.
type option func(*setup)

type setup struct {
	folder   string
	logs     string
	settings map[string]string
}

// with adds a setting, an environment variable.
func with(name, value string) option { return func(s *setup) { s.settings[name] = value } }

// in puts all data into a folder.
func in(folder string) option { return func(s *setup) { s.folder = folder } }

// behindProxy has Quire take a client's address from X-Forwarded-For.
func behindProxy() option { return with("QUIRE_TRUSTED_PROXIES", "127.0.0.0/8,::1/128") }

// witnessed names a witness that is away, whose metric is shown all the same.
func witnessed() option {
	return with("QUIRE_WITNESSES", "witness.example/w1+edde4101+BGyod3tFoPieFyU1JT+X3xeM1n+Np+YOG+ykOxXB5My/@http://127.0.0.1:1")
}

// sealed has bills sealed and logged each second.
func sealed() option { return with("QUIRE_CHECKPOINT_INTERVAL", "1s") }

const (
	bootLimit  = 3 * time.Minute
	callLimit  = 60 * time.Second
	anonLimit  = 10
	partitions = 4 // of a cluster
)

// start boots an instance with its own data. It ends with the test.
func start(t testing.TB, options ...option) *instance {
	t.Helper()
	return startAs(t, ofMode, options...)
}

// ofMode makes the quire of the mode that is tested.
func ofMode(s setup) quire { return newQuire(s.folder, s.logs) }

// startAs is start for a quire that the test makes.
func startAs(t testing.TB, newQuire func(setup) quire, options ...option) *instance {
	t.Helper()
	skipShort(t)
	slots <- struct{}{}
	i := prepare(setup{folder: t.TempDir(), logs: t.TempDir()}, newQuire, options...)
	t.Cleanup(func() {
		defer func() { <-slots }()
		if err := i.close(); err != nil {
			t.Errorf("stop quire: %v", err)
		}
		if t.Failed() {
			t.Log(i.diagnosis())
		}
	})
	if err := i.boot(); err != nil {
		t.Fatalf("start quire: %v", err)
	}
	return i
}

// skipShort leaves out what boots a whole quire: -short is for unit tests.
func skipShort(t testing.TB) {
	if testing.Short() {
		t.Skip("boots a whole quire")
	}
}

// slots bound how many instances run at a time: a cluster is sixteen processes, for two cores.
var slots = make(chan struct{}, 2)

func prepare(s setup, newQuire func(setup) quire, options ...option) *instance {
	s.settings = map[string]string{"QUIRE_ANON_LIMIT": strconv.Itoa(anonLimit), "QUIRE_REGISTER_LIMIT": "20", "QUIRE_UNMETERED_RATE": "100000", "QUIRE_DEV": "1"}
	for _, o := range options {
		o(&s)
	}
	transport := &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512, DisableCompression: true}
	return &instance{
		quire: newQuire(s), settings: s.settings,
		client: &http.Client{
			Transport:     &validator{next: transport, spec: specification()},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       callLimit,
		},
	}
}

func (i *instance) boot() error {
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	if err := i.quire.boot(ctx, maps.Clone(i.settings)); err != nil {
		return err
	}
	i.bases, i.public, i.adminToken = i.edges(), i.publicURL(), i.quire.adminToken()
	return nil
}

func (i *instance) stop() error {
	i.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), bootLimit)
	defer cancel()
	return i.quire.stop(ctx)
}

func (i *instance) close() error {
	i.client.CloseIdleConnections()
	return i.quire.close()
}

// restart stops and starts on the same data.
func (i *instance) restart(t testing.TB) {
	t.Helper()
	if err := i.stop(); err != nil {
		t.Fatalf("stop quire: %v", err)
	}
	if err := i.boot(); err != nil {
		t.Fatalf("start quire again: %v", err)
	}
}

// travel restarts with the clock moved on by d.
func (i *instance) travel(t testing.TB, d time.Duration) {
	t.Helper()
	i.settings["QUIRE_CLOCK_OFFSET"] = (i.offset() + d).String()
	i.restart(t)
}

func (i *instance) offset() time.Duration {
	d, err := time.ParseDuration(i.settings["QUIRE_CLOCK_OFFSET"])
	if err != nil {
		return 0 // unset: boot refuses a wrong one
	}
	return d
}

// now is the instance's time of day.
func (i *instance) now() time.Time { return time.Now().Add(i.offset()).UTC() }

// edge is the base URL for the next request: each goes to the next edge, since all edges must answer alike.
func (i *instance) edge() string { return i.bases[i.next.Add(1)%uint64(len(i.bases))] }

// address is the host and port for the next connection.
func (i *instance) address() string { return strings.TrimPrefix(i.edge(), "http://") }

// crowd makes clients of all edges. They make some hundred documents a second, not thousands, as the stand-in for MongoDB
// requires.
func (i *instance) crowd(t testing.TB) *load.Load {
	t.Helper()
	return quiretest.Gather(t, load.Config{Bases: i.bases, AdminToken: i.adminToken, Workers: 12, Pace: 50 * time.Millisecond})
}

// common is the instance that the cheap tests share, each with its own accounts. It trusts X-Forwarded-For, so that
// each request can come from another source: one source may not fail 100 times a minute, nor create more than 10 quick
// pastes.
func common(t testing.TB) *instance {
	t.Helper()
	skipShort(t)
	shared.once.Do(func() {
		if shared.folder, shared.err = os.MkdirTemp("", "quire-scenarios-"); shared.err != nil {
			return
		}
		logs := filepath.Join(shared.folder, "log")
		if shared.err = os.Mkdir(logs, 0o700); shared.err != nil {
			return
		}
		if shared.stripe, shared.err = startStripe(); shared.err != nil {
			return
		}
		shared.i = prepare(setup{folder: shared.folder, logs: logs}, ofMode, behindProxy(), selling(shared.stripe), witnessed(), sealed())
		if shared.err = shared.i.boot(); shared.err == nil {
			shared.stripe.SetEndpoint(shared.i.edge() + webhookPath)
		}
	})
	if shared.err != nil {
		t.Fatalf("start the shared quire: %v", shared.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			shared.failed.Store(true)
		}
	})
	return shared.i
}

// renderCommand starts this program as the process that renders texts.
func renderCommand() []string { return []string{os.Args[0], edge.RenderArgument} }

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == edge.RenderArgument {
		if err := edge.Render(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if err := parse(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	if shared.i != nil {
		if err := shared.i.close(); err != nil {
			fmt.Fprintf(os.Stderr, "stop the shared quire: %v\n", err)
			shared.failed.Store(true)
			code = max(code, 1)
		}
		if shared.failed.Load() {
			fmt.Fprintf(os.Stderr, "the shared quire:\n%s\n", shared.i.diagnosis())
		}
	}
	if shared.stripe != nil {
		shared.stripe.Close()
	}
	if shared.folder != "" {
		_ = os.RemoveAll(shared.folder)
	}
	os.Exit(code)
}
