// Package document is the service behind pastes, quick pastes and files: one engine with three
// policies. It follows a domain's journal, folds each request with package fold, answers the edge,
// settles with billing, and projects what it decided into the read model, which it serves.
//
// What makes it safe: a decision depends on the journal alone, the checkpoint moves in one commit with
// all that was decided up to it, and never past a message whose settlements billing's journal does not
// hold. Whoever starts at the checkpoint comes to the same decisions, answers and settles them once
// more, and billing and the edges know what they had before. So two engines on one partition are
// never wrong, only late.
package document

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/members"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views"
)

// Config is what an engine is for.
type Config struct {
	Policy fold.Policy
	// Partitions are those that Run folds; every one of PartitionCount where it is nil.
	Partitions []int
	// Assigned, where it is not nil, tells Run which partitions to fold, in place of Partitions: each set
	// it gives replaces the one before. Run folds none until the first.
	Assigned <-chan []int
	// Served, where it is not nil, is told that a partition is served from now on, or is no more. It is
	// called by several goroutines, in order for each partition, and must not block.
	Served func(partition int, serving bool)
	// PartitionCount is how many partitions each domain has, billing too.
	PartitionCount int
	// Offset is added to the clock (QUIRE_CLOCK_OFFSET), 0 outside development.
	Offset time.Duration
	Bounds Bounds
}

// Bounds limits what the engine holds and says how often it does what nobody asks for. Zero fields
// take their defaults.
type Bounds struct {
	CacheBytes       int           // documents kept in memory to be read, all partitions; 64 MiB
	OverlayBytes     int           // what one partition has decided and not yet projected; 64 MiB
	OverlayMessages  int           // likewise in journal messages; 8,192
	CommitBytes      int           // of one commit to the read model; 6 MiB
	CommitMessages   int           // likewise in journal messages; 512
	CommitDelay      time.Duration // for which a commit waits for company; 10 ms
	AnswerBytes      int           // of one message of answers; 512 KiB
	ReadWorkers      int           // loading what is not in memory, a partition; 8
	ReadQueue        int           // batches of reads that wait for them; 256
	ListWorkers      int           // 4
	ListScan         int           // documents looked at for one page; 5,000
	ViewWait         time.Duration // for one call of the read model or blob store; 5 s
	ReadWait         time.Duration // for one batch of reads or one list; 4 s
	BurnGrace        time.Duration // for which a burned blob can still be fetched; 1 min
	ExpiryEvery      time.Duration // 10 s
	OutcomesEvery    time.Duration // 10 min
	OrphansEvery     time.Duration // 1 h
	OrphanAge        time.Duration // 1 h
	PurgeEvery       time.Duration // 10 min
	ContentRetention time.Duration // for which requests stay in the journal; 7 days
	SweepPoll        time.Duration // how often the clock is asked whether a sweep is due; 1 s
	Replicas         int           // of the journal; 1
	StreamMaxBytes   int64         // of the journal of one partition, which then refuses more; 0: no bound
}

func (b *Bounds) setDefaults() {
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
		{&b.Replicas, 1},
	} {
		if *n.value <= 0 {
			*n.value = n.otherwise
		}
	}
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&b.CommitDelay, 10 * time.Millisecond},
		{&b.ViewWait, 5 * time.Second},
		{&b.ReadWait, 4 * time.Second},
		{&b.BurnGrace, time.Minute},
		{&b.ExpiryEvery, 10 * time.Second},
		{&b.OutcomesEvery, 10 * time.Minute},
		{&b.OrphansEvery, time.Hour},
		{&b.OrphanAge, time.Hour},
		{&b.PurgeEvery, 10 * time.Minute},
		{&b.ContentRetention, 7 * 24 * time.Hour},
		{&b.SweepPoll, time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.otherwise
		}
	}
}

// Deps is what an engine works with. All of it stays the caller's.
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

	mu       sync.Mutex
	sessions uint64        // started so far: tells the cached documents of one from another's
	assigned bool          // wanted was given
	wanted   []int         // partitions to fold
	serving  map[int]bool  // those that are served now
	ready    chan struct{} // closed when all wanted were served for the first time
}

// New checks the configuration. Nothing is contacted before Run.
func New(cfg Config, deps Deps) (*Engine, error) {
	cfg.Bounds.setDefaults()
	if cfg.Partitions == nil && cfg.Assigned == nil {
		for p := range cfg.PartitionCount {
			cfg.Partitions = append(cfg.Partitions, p)
		}
	}
	var faults []error
	if !slices.Contains(event.Documents(), cfg.Policy.Domain) {
		faults = append(faults, fmt.Errorf("domain %q has no documents", cfg.Policy.Domain))
	}
	if cfg.PartitionCount < 1 {
		faults = append(faults, fmt.Errorf("%d partitions", cfg.PartitionCount))
	}
	for _, p := range cfg.Partitions {
		if p < 0 || p >= cfg.PartitionCount {
			faults = append(faults, fmt.Errorf("partition %d of %d", p, cfg.PartitionCount))
		}
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
	return &Engine{
		cfg: cfg, deps: deps, metrics: newMetrics(cfg.Policy.Domain, deps.Metrics), cache: cache,
		ready: make(chan struct{}), serving: map[int]bool{},
	}, nil
}

// Run serves the configured partitions until ctx ends, then returns nil. It returns an error where
// going on would be wrong: the journal was made for another number of partitions, has lost messages,
// or is configured so that it could.
func (e *Engine) Run(ctx context.Context) error {
	source := e.cfg.Assigned
	if source == nil {
		source = members.Static(e.cfg.Partitions)
	}
	return members.Supervise(ctx, source, members.Work{
		Start:      e.serve,
		Fatal:      func(err error) bool { return !errors.Is(err, members.ErrEnded) },
		Partitions: e.cfg.PartitionCount,
		Assigned:   e.assign,
		Logger:     e.deps.Logger,
	})
}

// assign notes a set before any of its partitions begins, or Ready would be closed by the first of them.
func (e *Engine) assign(set []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted, e.assigned = set, true
	e.noteReady()
}

// Ready is closed as soon as every partition has caught up with its journal for the first time; at once
// where none is assigned.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Serving tells whether every partition is served now: none is, for the moment, catching up. It is true
// of an engine that was assigned none.
func (e *Engine) Serving() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allServing()
}

func (e *Engine) allServing() bool {
	for _, p := range e.wanted {
		if !e.serving[p] {
			return false
		}
	}
	return e.assigned
}

// noteReady is called with mu held.
func (e *Engine) noteReady() {
	if !e.allServing() {
		return
	}
	select {
	case <-e.ready:
	default:
		close(e.ready)
	}
}

func (e *Engine) setServing(partition int, serving bool) {
	e.mu.Lock()
	changed := e.serving[partition] != serving
	if serving {
		e.serving[partition] = true
	} else {
		delete(e.serving, partition)
	}
	e.noteReady()
	e.mu.Unlock()
	if changed && e.cfg.Served != nil {
		e.cfg.Served(partition, serving)
	}
}

// serve folds and serves one partition until ctx ends, then returns nil; errors are those of Run. What
// fails for a while is tried again from the checkpoint.
func (e *Engine) serve(ctx context.Context, partition int) error {
	defer e.setServing(partition, false)
	// The first one says how many there are. A process told of more learns it there, before it makes any of them.
	streams := []journal.Stream{e.stream(0)}
	if partition != 0 {
		streams = append(streams, e.stream(partition))
	}
	if err := journal.Ensure(ctx, e.deps.NC, streams, e.cfg.PartitionCount); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	retry := newRetry()
	for ctx.Err() == nil {
		e.setServing(partition, false)
		err := e.newSession(partition).run(ctx, &retry)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, journal.ErrGap), errors.Is(err, journal.ErrTruncated), errors.Is(err, journal.ErrNoStream), errors.Is(err, journal.ErrClosed):
			return fmt.Errorf("fold %s: %w", e.cfg.Policy.Domain.Stream(partition), err)
		}
		e.metrics.restarts.Inc()
		e.deps.Logger.Warn("folding again from the checkpoint", "partition", partition, "cause", err)
		retry.Wait(ctx)
	}
	return nil
}

func (e *Engine) stream(partition int) journal.Stream {
	domain := e.cfg.Policy.Domain
	return journal.Stream{
		Domain: string(domain), Partition: partition, Name: domain.Stream(partition),
		Subjects: domain.Subjects(partition), Replicas: e.cfg.Bounds.Replicas, MaxBytes: e.cfg.Bounds.StreamMaxBytes,
	}
}

// now is the service's time of day in Unix milliseconds, with the offset.
func (e *Engine) now() int64 { return e.deps.Clock().Add(e.cfg.Offset).UnixMilli() }
