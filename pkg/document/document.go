// Package document is the service behind pastes, quick pastes and files: one engine with three policies. It follows a
// domain's journal, folds each request with package fold, answers the edge, settles with billing, and projects its
// decisions into the read model, from which it answers reads.
//
// A decision depends on the journal alone. The checkpoint moves in one commit with all decisions up to it, and never past
// a message whose settlements are not in billing's journal yet. A replica that begins at the checkpoint comes to the same
// decisions, and answers and settles them once more; billing and the edges skip the repetitions. So two replicas of one
// partition are never wrong, and one of them is only late. Of these two, at most one shows what it has decided: see lease.
package document

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/document/sweep"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/replica"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views"
)

// Config describes an engine.
type Config struct {
	Policy fold.Policy
	// Assigned tells Run which partitions to fold: each set it gives replaces the one before, and Run folds none until
	// the first. nil: all, and no other process folds any.
	Assigned <-chan []int
	// Served, where it is not nil, is told that a partition is served from now on, or is no longer served. It is called
	// by several goroutines, in order for each partition, and must not block.
	Served func(partition int, serving bool)
	// Instance is the name of this instance, another one for each process. Drawn at random where it is empty.
	Instance string
	// Live names the instances of the service that are alive, this one included, and must not block. nil: this one alone where
	// Assigned is nil too, else none, which says that they are not known.
	Live func() []string
	// PartitionCount is the number of partitions of every domain, billing included.
	PartitionCount int
	// Offset is added to the clock (QUIRE_CLOCK_OFFSET), 0 outside development.
	Offset time.Duration
	Bounds Bounds
}

// Bounds are the limits of an engine and the intervals of its background jobs. Zero fields take the default given beside
// them.
type Bounds struct {
	CacheBytes      int           // of the documents cached for readers, all partitions; 64 MiB
	OverlayBytes    int           // of the decisions of a partition that are not projected yet; 64 MiB
	OverlayMessages int           // likewise in journal messages; 8,192
	CommitBytes     int           // of one commit to the read model; 6 MiB
	CommitMessages  int           // likewise in journal messages; 512
	CommitDelay     time.Duration // how long a commit waits for more messages; 100 ms
	SettleDelay     time.Duration // how long settlements that no answer waits for wait for others; 20 ms
	AnswerBytes     int           // of one message of answers; 512 KiB
	ReadWorkers     int           // of a partition, which read from the read model; 8
	ReadQueue       int           // batches of reads that wait for a worker; 256
	ListWorkers     int           // of a partition; 4
	ListScan        int           // documents looked at for one page; 5,000
	ViewWait        time.Duration // limit of one call of the read model or blob store; 5 s
	ReadWait        time.Duration // limit of one batch of reads or one list; 4 s
	BurnGrace       time.Duration // how long the blob of a burned document can still be fetched; 1 min
	Sweep           sweep.Bounds
}

// Pauses between two attempts at a call that failed, and between two runs of a partition. Two replicas that project one
// partition end each other's runs: the pauses let one of them finish.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = time.Second
	// mostPatience bounds the time that one call of a store may take once shorter ones were not enough.
	mostPatience = time.Minute
)

func (b *Bounds) setDefaults() {
	b.Sweep.SetDefaults()
	for _, n := range []struct {
		value     *int
		otherwise int
	}{
		{&b.CacheBytes, 64 << 20},
		{&b.OverlayBytes, 64 << 20},
		{&b.OverlayMessages, 8192},
		{&b.CommitBytes, 6 << 20},
		{&b.CommitMessages, 512},
		{&b.AnswerBytes, 512 << 10},
		{&b.ReadWorkers, 8},
		{&b.ReadQueue, 256},
		{&b.ListWorkers, 4},
		{&b.ListScan, 5000},
	} {
		if *n.value <= 0 {
			*n.value = n.otherwise
		}
	}
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&b.CommitDelay, 100 * time.Millisecond},
		{&b.SettleDelay, 20 * time.Millisecond},
		{&b.ViewWait, 5 * time.Second},
		{&b.ReadWait, 4 * time.Second},
		{&b.BurnGrace, time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.otherwise
		}
	}
}

func (c *Config) setInstance() {
	if c.Instance == "" {
		c.Instance = strings.ToLower(rand.Text()[:12])
	}
	if c.Live != nil {
		return
	}
	var live []string
	if c.Assigned == nil {
		live = []string{c.Instance}
	}
	c.Live = func() []string { return live }
}

// Deps are the connections and stores of an engine. They stay the caller's.
type Deps struct {
	NC    *nats.Conn
	Views views.Store // opened with Collections of the domain
	Blobs blob.Store
	// Clock is the time of day without Config.Offset; time.Now where it is nil.
	Clock   func() time.Time
	Logger  *slog.Logger       // nil: silent
	Metrics *telemetry.Metrics // nil: none
}

// Engine is one instance of a document service.
type Engine struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	cache   *otter.Cache[cacheKey, *entry]

	instance string // drawn at the start; the readers of this process are named by it
	replicas *replica.Set
	runs     atomic.Uint64            // of partitions, begun so far; see cacheKey
	readers  []atomic.Pointer[reader] // by partition; nil while it is not served
}

// New checks the configuration. Nothing is contacted before Run.
func New(cfg Config, deps Deps) (*Engine, error) {
	cfg.Bounds.setDefaults()
	var faults []error
	if !slices.Contains(event.Documents(), cfg.Policy.Domain) {
		faults = append(faults, fmt.Errorf("domain %q has no documents", cfg.Policy.Domain))
	}
	if cfg.PartitionCount < 1 {
		faults = append(faults, fmt.Errorf("%d partitions", cfg.PartitionCount))
	}
	if deps.NC == nil || deps.Views == nil || deps.Blobs == nil {
		faults = append(faults, errors.New("a connection, views and blobs are needed"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("new document engine: %w", err)
	}
	if deps.Clock == nil {
		deps.Clock = time.Now
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	deps.Logger = deps.Logger.With("domain", string(cfg.Policy.Domain))
	cache, err := newCache(cfg.Bounds.CacheBytes)
	if err != nil {
		return nil, fmt.Errorf("new document engine: %w", err)
	}
	cfg.setInstance()
	e := &Engine{
		cfg: cfg, deps: deps, metrics: newMetrics(cfg.Policy.Domain, deps.Metrics), cache: cache, instance: rand.Text(),
		readers: make([]atomic.Pointer[reader], cfg.PartitionCount),
	}
	e.replicas = replica.NewSet(replica.Config{
		Count: cfg.PartitionCount, Assigned: cfg.Assigned, Served: cfg.Served,
		Start: e.fold, FirstPause: firstPause, MostPause: mostPause, NC: deps.NC, Logger: deps.Logger,
	})
	return e, nil
}

// Run serves the assigned partitions until ctx ends, then returns nil. It returns an error if going on would be wrong: the
// journal was made for another number of partitions, has lost messages, or is configured so that it could.
func (e *Engine) Run(ctx context.Context) error {
	server, err := rpc.Serve(e.deps.NC, e.cfg.Policy.Domain.InstancesSubject(), e.cfg.Instance, instanceWorkers, e.describe, rpc.WithLogger(e.deps.Logger))
	if err != nil {
		return fmt.Errorf("serve questions about this instance: %w", err)
	}
	defer rpc.Stop(drainWait, server)
	return e.replicas.Run(ctx)
}

// instanceWorkers answer questions about this instance. One about its health may wait for journals for a second.
const instanceWorkers = 4

// describe answers with the name and partitions of this instance. Every instance of the service answers.
func (e *Engine) describe(ctx context.Context, asked []byte) ([]byte, error) {
	is := event.Instance{Name: e.cfg.Instance, Partitions: e.cfg.PartitionCount, Serves: e.replicas.Served(), Live: e.cfg.Live()}
	if string(asked) == event.AskHealth {
		is.Folds = e.replicas.Health(ctx)
	}
	return json.Marshal(is)
}

// Ready is closed as soon as every assigned partition has caught up with its journal for the first time; at once where
// none is assigned.
func (e *Engine) Ready() <-chan struct{} { return e.replicas.Ready() }

// Serving tells whether all assigned partitions are served now. It is true where none is assigned.
func (e *Engine) Serving() bool { return e.replicas.Serving() }

// Unready tells operators why the assigned partitions are not served as they should be; nil where they are.
func (e *Engine) Unready() error { return e.replicas.Unready() }

// ReadNow answers a read of an edge in the same process, as a ReadBatch of that one read with the same NowMs and AfterSequence. It
// returns nil where the answer is not in memory, or the partition is not served: the read is then asked for in a message. The
// document is shared and must not be changed. It never blocks, and may be called by many goroutines.
func (e *Engine) ReadNow(partition int, read *event.Read, after uint64, nowMS int64) *event.ReadAnswer {
	if r := e.readers[partition].Load(); r != nil {
		return r.readNow(read, after, nowMS)
	}
	return nil
}

// fold folds and serves one partition until ctx ends. After an error that is not fatal it is called again, and begins at
// the checkpoint.
func (e *Engine) fold(ctx context.Context, partition int) error {
	// The first stream holds the number of partitions. A process with a larger number learns it there, and does not wait for
	// streams that will never exist.
	streams := []journal.Stream{installation.Stream(e.cfg.Policy.Domain, 0)}
	if partition != 0 {
		streams = append(streams, installation.Stream(e.cfg.Policy.Domain, partition))
	}
	waiting := func(err error) {
		e.deps.Logger.Warn("waiting for the journals, which provisioning makes", "cause", err)
	}
	if err := journal.Await(ctx, e.deps.NC, streams, e.cfg.PartitionCount, waiting); err != nil {
		return replica.Fatal(err)
	}
	p, err := e.newPartition(partition)
	if err == nil {
		err = p.run(ctx)
	}
	for _, lost := range []error{journal.ErrGap, journal.ErrTruncated, journal.ErrNoStream, journal.ErrClosed} {
		if errors.Is(err, lost) {
			return replica.Fatal(fmt.Errorf("fold %s: %w", e.cfg.Policy.Domain.Stream(partition), err))
		}
	}
	if ctx.Err() == nil {
		e.metrics.restarts.Inc()
	}
	return err
}
