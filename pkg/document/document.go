// Package document is the service behind pastes, quick pastes and files: one engine with three policies. It follows a domain's
// journal, folds each request with package fold, answers the edge, settles with billing, and projects its decisions into the
// read model, from which it answers reads.
//
// A decision depends on the journal alone. The checkpoint moves in one commit with all decisions up to it, and never past a
// message whose settlements are not in billing's journal yet. A replica that begins at the checkpoint reaches the same
// decisions, and answers and settles them again; billing and the edges skip the repeats. So two replicas of one partition are
// never wrong, only one of them late. At most one of them shows its decisions: see lease.
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
	"quire.dev/pkg/host"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/replica"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
	"quire.dev/pkg/views"
)

// Config describes an engine.
type Config struct {
	Policy fold.Policy
	// Assigned delivers the partitions for Run to fold. Each set replaces the previous one, and Run folds none until the first.
	// nil: all partitions, and no other process folds any.
	Assigned <-chan []int
	// Served, if not nil, is called when a partition starts or stops being served. Calls come from several goroutines, in order
	// for each partition, and must not block.
	Served func(partition int, serving bool)
	// Instance is the name of this instance, unique per process; random if empty.
	Instance string
	// Live returns the live instances of the service, including this one, and must not block. An empty result means unknown.
	// nil: only this instance if Assigned is nil too, else unknown.
	Live func() []string
	// PartitionCount is the number of partitions of every domain, billing included.
	PartitionCount int
	// Offset is added to the clock (QUIRE_CLOCK_OFFSET); 0 outside development.
	Offset time.Duration
	Bounds Bounds
}

// Bounds are the limits of an engine and the intervals of its background jobs. Zero fields take the default given beside them.
type Bounds struct {
	CacheBytes      int           // documents cached for readers, all partitions; 64 MiB
	OverlayBytes    int           // decisions of a partition not projected yet; 64 MiB
	OverlayMessages int           // the same in journal messages; 8,192
	CommitBytes     int           // one commit to the read model; 6 MiB
	CommitMessages  int           // the same in journal messages; 512
	CommitDelay     time.Duration // how long a commit waits for more messages; 100 ms
	SettleDelay     time.Duration // how long settlements without a waiting answer are batched; 20 ms
	AnswerBytes     int           // one message of answers; 512 KiB
	ReadWorkers     int           // workers per partition that query the read model; 8
	ReadQueue       int           // batches of reads waiting for a worker; 256
	ListWorkers     int           // per partition; 4
	ListScan        int           // documents scanned for one page; 5,000
	ViewWait        time.Duration // one call of the read model or blob store; 5 s
	ReadWait        time.Duration // one batch of reads or one list; 4 s
	BurnGrace       time.Duration // how long the blob of a burned document can still be fetched; 1 min
	Sweep           sweep.Bounds
}

// Configure returns the configuration that the settings ask for, but for the policy. Settings that a program does not read are
// zero and leave the default.
func Configure(s host.Settings) Config {
	return Config{
		PartitionCount: s.Partitions, Offset: s.ClockOffset,
		Bounds: Bounds{
			Sweep:      sweep.Bounds{ContentRetention: s.ContentRetention, TrashRetention: s.TrashRetention, KeepOrphans: s.KeepOrphans},
			CacheBytes: int(s.CacheBytes), OverlayBytes: int(s.OverlayBytes),
		},
	}
}

// Pauses between attempts at a failed call, and between two runs of a partition. Two replicas that project one partition end
// each other's runs: the pauses let one of them finish.
const (
	initialPause = 10 * time.Millisecond
	maxPause     = time.Second
	// maxTimeout is the longest timeout of one call to a store, reached after shorter ones have failed.
	maxTimeout = time.Minute
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

// Deps are the connections and stores of an engine, owned by the caller.
type Deps struct {
	NC     *nats.Conn
	Shared inprocess.Shared // with services of the same process
	Views  views.Store      // opened with Collections of the domain
	Blobs  blob.Store
	// Clock is the time of day without Config.Offset; nil: time.Now.
	Clock   func() time.Time
	Logger  *slog.Logger       // nil: silent
	Metrics *telemetry.Metrics // nil: none
	Traces  *trace.Scope       // nil: nothing is traced
}

// Engine is one instance of a document service.
type Engine struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	cache   *otter.Cache[cacheKey, *entry]

	instance string // random; names the readers of this process
	replicas *replica.Set
	runs     atomic.Uint64            // number of partition runs begun; see cacheKey
	readers  []atomic.Pointer[reader] // by partition; nil while not served
}

// New checks the configuration. It contacts nothing before Run.
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
		Start: e.fold, InitialPause: initialPause, MaxPause: maxPause, NC: deps.NC, Logger: deps.Logger,
	})
	return e, nil
}

// Run serves the assigned partitions until ctx ends, then returns nil. It returns an error if it must not continue: the journal
// was created for another number of partitions, has lost messages, or is configured so that it could.
func (e *Engine) Run(ctx context.Context) error {
	server, err := rpc.Serve(e.deps.NC, e.cfg.Policy.Domain.InstancesSubject(), e.cfg.Instance, instanceWorkers, e.describe, rpc.WithLogger(e.deps.Logger))
	if err != nil {
		return fmt.Errorf("serve queries about this instance: %w", err)
	}
	defer rpc.Stop(drainWait, server)
	return e.replicas.Run(ctx)
}

// instanceWorkers answer queries about this instance. A health query may wait a second for journals.
const instanceWorkers = 4

// describe answers with the name and partitions of this instance. Every instance of the service answers.
func (e *Engine) describe(ctx context.Context, asked []byte) ([]byte, error) {
	is := event.Instance{
		Name: e.cfg.Instance, Partitions: e.cfg.PartitionCount, Serves: e.replicas.Served(), Stalled: e.replicas.Stalled(), Live: e.cfg.Live(),
	}
	if string(asked) == event.AskHealth {
		is.Folds = e.replicas.Health(ctx)
	}
	return json.Marshal(is)
}

// Ready is closed once every assigned partition has caught up with its journal for the first time; at once if none is assigned.
func (e *Engine) Ready() <-chan struct{} { return e.replicas.Ready() }

// Serving reports whether all assigned partitions are served. It is true if none is assigned.
func (e *Engine) Serving() bool { return e.replicas.Serving() }

// Unready is the reason for operators why assigned partitions are not served properly, or nil.
func (e *Engine) Unready() error { return e.replicas.Unready() }

// ReadNow answers a read of an edge in the same process, like a ReadBatch of that one read with the same NowMs and
// AfterSequence. It returns nil if the answer is not in memory or the partition is not served: the edge then sends a message.
// The document is shared and must not be changed. It never blocks. Safe for concurrent use.
func (e *Engine) ReadNow(partition int, read *event.Read, after uint64, nowMS int64) *event.ReadAnswer {
	if r := e.readers[partition].Load(); r != nil {
		return r.readNow(read, after, nowMS)
	}
	return nil
}

// fold folds and serves one partition until ctx ends. After an error that is not fatal it is called again, and begins at the
// checkpoint.
func (e *Engine) fold(ctx context.Context, partition int) error {
	// The first stream holds the number of partitions. A process with a larger number learns it there, instead of waiting for
	// streams that will never exist.
	streams := []journal.Stream{installation.Stream(e.cfg.Policy.Domain, 0)}
	if partition != 0 {
		streams = append(streams, installation.Stream(e.cfg.Policy.Domain, partition))
	}
	waiting := func(err error) {
		e.deps.Logger.Warn("waiting for the journals, which provisioning creates", "cause", err)
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
			return replica.Fatal(fmt.Errorf("fold %s: %w%s", e.cfg.Policy.Domain.Stream(partition), err, e.wayOut(err)))
		}
	}
	if ctx.Err() == nil {
		e.metrics.restarts.Inc()
	}
	return err
}

// wayOut tells operators what lets the service start after an error, as the end of its text.
func (e *Engine) wayOut(err error) string {
	const page = ": docs/refusals.md"
	command := "`quire repair accept-gap --service " + string(e.cfg.Policy.Domain) + "`"
	switch {
	case errors.Is(err, journal.ErrGap):
		return ". Nothing was changed. Restore a newer backup of the read model. Without one, " + command + " records what is lost, and goes on" + page
	case errors.Is(err, journal.ErrTruncated):
		return ". Nothing was changed. Put back the journal that belongs to the read model. Without it, " + command +
			" records what the journal has lost, and goes on: the read model has it" + page
	case errors.Is(err, journal.ErrNoStream):
		return ". Nothing was changed. Restore the journal from a backup, with `quire restore`" + page
	}
	return ""
}
