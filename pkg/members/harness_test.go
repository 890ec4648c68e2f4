package members

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/wait"
)

// never is a heartbeat longer than any test: changes that a test sees need no heartbeat.
const never = 10 * time.Minute

// slow is a service without heartbeats. Its members are never taken for dead.
func slow(replicas int) Config {
	return Config{Service: "billing", Partitions: 16, PerPartition: replicas, TTL: 3 * never, Heartbeat: never, Handover: never}
}

// quick is a service with a short TTL.
func quick(replicas int) Config {
	return Config{
		Service: "billing", Partitions: 16, PerPartition: replicas,
		TTL: 1500 * time.Millisecond, Heartbeat: 200 * time.Millisecond, Handover: never,
	}
}

// coverage notes which instances serve each partition.
type coverage struct {
	mu      sync.Mutex
	serving map[int]map[string]bool // by partition
	least   int                     // replicas that each partition must have from now on
	holes   int                     // how often one had fewer
}

func newCoverage() *coverage { return &coverage{serving: map[int]map[string]bool{}} }

func (c *coverage) set(partition int, instance string, serves bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.serving[partition] == nil {
		c.serving[partition] = map[string]bool{}
	}
	if serves {
		c.serving[partition][instance] = true
	} else {
		delete(c.serving[partition], instance)
	}
	if len(c.serving[partition]) < c.least {
		c.holes++
	}
}

// guard counts a hole for each change that leaves a partition with fewer replicas, from now on.
func (c *coverage) guard(replicas int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.least = replicas
}

func (c *coverage) mustHaveNoHole(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holes > 0 {
		t.Errorf("%d times a partition had fewer than %d replicas", c.holes, c.least)
	}
}

// instance is one process: a member, and the partitions that it serves.
type instance struct {
	*Member
	cover *coverage
	nc    *nats.Conn

	mu     sync.Mutex
	has    []int
	stuck  bool // it serves no partition that is assigned from now on
	ended  chan struct{}
	err    error // of Run, once ended is closed
	cancel context.CancelFunc
}

// provisioning makes the bucket, as the provisioning job does, until stop is called. It waits for a server.
func provisioning(ctx context.Context, nc *nats.Conn, cfg Config) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var made sync.WaitGroup
	made.Go(func() {
		retry := wait.Backoff{Initial: 10 * time.Millisecond, Max: 100 * time.Millisecond}
		for Ensure(ctx, nc, cfg) != nil && retry.Wait(ctx) {
		}
	})
	return func() { cancel(); made.Wait() }
}

// joined is a member that has joined.
func joined(ctx context.Context, nc *nats.Conn, cfg Config) (*Member, error) {
	defer provisioning(ctx, nc, cfg)()
	m := New(nc, cfg)
	return m, m.join(ctx)
}

// join starts an instance that lives until the test ends, or is killed or stopped before.
func join(t *testing.T, nc *nats.Conn, cfg Config, cover *coverage) *instance {
	t.Helper()
	m, err := joined(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return live(t, nc, m, cover, false)
}

// live runs a member that has joined. If it is stuck, it never serves a partition.
func live(t *testing.T, nc *nats.Conn, m *Member, cover *coverage, stuck bool) *instance {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &instance{Member: m, cover: cover, nc: nc, stuck: stuck, ended: make(chan struct{}), cancel: cancel}
	var all sync.WaitGroup
	all.Go(func() { f.err = m.run(ctx) })
	all.Go(f.fold)
	go func() {
		all.Wait()
		close(f.ended)
	}()
	t.Cleanup(func() { f.stop() })
	return f
}

// fold serves each partition as soon as it is assigned.
func (f *instance) fold() {
	for set := range f.Assigned() {
		f.mu.Lock()
		had, stuck := f.has, f.stuck
		f.has = set
		f.mu.Unlock()
		for _, p := range had {
			if !slices.Contains(set, p) {
				f.cover.set(p, f.Instance(), false)
				f.Serving(p, false)
			}
		}
		for _, p := range set {
			if !stuck && !slices.Contains(had, p) {
				f.cover.set(p, f.Instance(), true)
				f.Serving(p, true)
			}
		}
	}
}

func (f *instance) assigned() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.has)
}

// stop ends Run without handing over.
func (f *instance) stop() {
	f.cancel()
	<-f.ended
}

// kill ends the instance without telling the others.
func (f *instance) kill(t *testing.T) {
	t.Helper()
	f.nc.Close()
	<-f.ended
	if !errors.Is(f.err, nats.ErrConnectionClosed) {
		t.Fatalf("run ended with %v", f.err)
	}
}

// waitShared waits until each of these instances knows exactly these, and each partition is folded by its owners among
// them alone.
func waitShared(t *testing.T, cfg Config, instances ...*instance) {
	t.Helper()
	want := map[string][]int{}
	var alive []string
	for _, f := range instances {
		alive = append(alive, f.Instance())
		want[f.Instance()] = nil
	}
	slices.Sort(alive)
	for p := range cfg.Partitions {
		for _, owner := range Owners(alive, p, max(cfg.PerPartition, 1)) {
			want[owner] = append(want[owner], p)
		}
	}
	eventually.True(t, "partitions shared among the live", func() bool {
		got := map[string][]int{}
		for _, f := range instances {
			if !slices.Equal(f.Live(), alive) {
				return false
			}
			got[f.Instance()] = f.assigned()
		}
		return maps.EqualFunc(got, want, slices.Equal)
	})
}

// gate is a connection to the server that can be cut.
type gate struct {
	server *journaltest.Server

	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

// InProcessConn makes a connection unless the gate is shut.
func (g *gate) InProcessConn() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, errors.New("no way through")
	}
	c, err := g.server.InProcessConn()
	if err == nil {
		g.conns = append(g.conns, c)
	}
	return c, err
}

// close cuts the connections and refuses new ones until open.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for _, c := range g.conns {
		c.Close()
	}
	g.conns = nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
}
