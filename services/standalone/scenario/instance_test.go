// Package scenario has the scenario tests: they speak HTTP to a whole Quire. What they expect is written from the HTTP
// contract, not taken from the product's own tables, and every answer is held to docs/openapi.yaml.
//
// Each of them runs against one process, and against many with `-args -processes=many`: a cluster with two edges, of
// which successive requests go to another one each. No test knows which it is.
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

	"quire.dev/cluster/load"
	"quire.dev/services/standalone/internal/quiretest"
)

// quire is a whole Quire, as one process or as many.
type quire interface {
	// boot starts it on the data that it has and returns once it serves. After an error nothing of it runs but stores.
	boot(ctx context.Context, settings map[string]string) error
	// stop ends it in order. Stores that are processes of their own run on.
	stop(ctx context.Context) error
	// close ends all there is, for good, and says what was wrong with it.
	close() error
	// diagnosis is what its processes have to say about a failure.
	diagnosis() string

	edges() []string     // base URLs
	operators() []string // bases of /livez, /readyz and /metrics
	publicURL() string
	adminToken() string

	journal() []restarter                                      // the servers of the journal
	readModels(ctx context.Context, condition readModel) error // of all services
	heal(ctx context.Context) error                            // what whoever runs it does by itself after a full disk
	emptyBytes() int64                                         // of disk, before anything is stored
}

// restarter is a server that can be stopped and started.
type restarter interface {
	Restart(ctx context.Context) error
}

// readModel is a condition that read models can be in.
type readModel int

const (
	works readModel = iota
	fails
	hangs
)

// instance is a Quire with the client that the tests speak to it by.
type instance struct {
	quire
	settings   map[string]string
	client     *http.Client
	adminToken string
	public     string // what the URLs in answers begin with
	bases      []string
	next       atomic.Uint64
}

// option changes what an instance is made of.
type option func(*setup)

type setup struct {
	folder   string
	logs     string
	settings map[string]string
}

// with gives a setting in the form of an environment variable.
func with(name, value string) option { return func(s *setup) { s.settings[name] = value } }

// in puts all data into a folder.
func in(folder string) option { return func(s *setup) { s.folder = folder } }

// behindProxy believes what the tests say of the address they come from.
func behindProxy() option { return with("QUIRE_TRUSTED_PROXIES", "127.0.0.0/8,::1/128") }

const (
	bootLimit  = 3 * time.Minute
	callLimit  = 60 * time.Second
	anonLimit  = 10
	partitions = 4 // of many processes
)

// start boots an instance with data of its own, and stops it when the test ends.
func start(t testing.TB, options ...option) *instance {
	t.Helper()
	slots <- struct{}{}
	i := prepare(setup{folder: t.TempDir(), logs: t.TempDir()}, options...)
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

// slots bound how many instances live at a time: many processes are fifteen, for two cores.
var slots = make(chan struct{}, 2)

func prepare(s setup, options ...option) *instance {
	s.settings = map[string]string{"QUIRE_ANON_LIMIT": strconv.Itoa(anonLimit), "QUIRE_DEV": "1"}
	for _, o := range options {
		o(&s)
	}
	transport := &http.Transport{MaxIdleConns: 512, MaxIdleConnsPerHost: 512, DisableCompression: true}
	return &instance{
		quire: newQuire(s.folder, s.logs), settings: s.settings,
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

// travel restarts with the clock moved on, which is how people try month ends.
func (i *instance) travel(t testing.TB, d time.Duration) {
	t.Helper()
	i.settings["QUIRE_CLOCK_OFFSET"] = (i.offset() + d).String()
	i.restart(t)
}

func (i *instance) offset() time.Duration {
	d, err := time.ParseDuration(i.settings["QUIRE_CLOCK_OFFSET"])
	if err != nil {
		return 0 // unset: boot would not have taken a wrong one
	}
	return d
}

// now is the instance's time of day.
func (i *instance) now() time.Time { return time.Now().Add(i.offset()).UTC() }

// edge is the base URL for the next request: what one edge has answered, every other one knows.
func (i *instance) edge() string { return i.bases[i.next.Add(1)%uint64(len(i.bases))] }

// address is where the next connection goes.
func (i *instance) address() string { return strings.TrimPrefix(i.edge(), "http://") }

// crowd is a crowd of clients of all edges. They make some hundred documents a second, not thousands: the stand-in for
// MongoDB reads all of a collection for each list.
func (i *instance) crowd(t testing.TB) *load.Load {
	t.Helper()
	return quiretest.Gather(t, load.Config{Bases: i.bases, AdminToken: i.adminToken, Workers: 12, Pace: 50 * time.Millisecond})
}

// common is the instance that the cheap tests share, each with accounts of its own. The tests' own address must be
// able to try every error more than 100 times a minute, and to create more than 10 quick pastes: tests of those limits
// come from other sources.
func common(t testing.TB) *instance {
	t.Helper()
	shared.once.Do(func() {
		if shared.folder, shared.err = os.MkdirTemp("", "quire-scenarios-"); shared.err != nil {
			return
		}
		logs := filepath.Join(shared.folder, "log")
		if shared.err = os.Mkdir(logs, 0o700); shared.err != nil {
			return
		}
		shared.i = prepare(setup{folder: shared.folder, logs: logs}, behindProxy())
		shared.err = shared.i.boot()
	})
	if shared.err != nil {
		t.Fatalf("start the shared quire: %v", shared.err)
	}
	return shared.i
}

func TestMain(m *testing.M) {
	if err := parse(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	code := m.Run()
	if shared.i != nil {
		if err := shared.i.close(); err != nil {
			fmt.Fprintf(os.Stderr, "stop the shared quire: %v\n", err)
			code = max(code, 1)
		}
		if code != 0 {
			fmt.Fprintf(os.Stderr, "the shared quire:\n%s\n", shared.i.diagnosis())
		}
	}
	if shared.folder != "" {
		_ = os.RemoveAll(shared.folder)
	}
	os.Exit(code)
}
