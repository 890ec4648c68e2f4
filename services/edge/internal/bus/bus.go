// Package bus is the edge's side of the message bus: it asks billing for admissions, settles reads,
// publishes writes, and asks the document services. It knows no HTTP.
//
// Every failure is a *fault.Error:
//   - Unavailable: the request was not carried out.
//   - OutcomeUnknown: the request may have been published, and no answer came in time.
//   - TooLarge: the request does not fit into a message.
//
// The end of the caller's context yields one of the first two, with the context's error as the cause.
//
// Each decision to repeat a request is made in repeat.go, by causeOf for a question that failed, and by afterVerdict and
// afterHold for a refused admission. One loop carries it out: PendingVerdict.pursue for admissions, PendingRead.Wait for reads,
// Bus.ask for other questions. A budget bounds the loop: it has one deadline, and a shorter time for most causes. Writes,
// commands and other changes are never repeated here; their clients repeat them under an Idempotency-Key. Below, a lane
// publishes a batch again, with the same number and bytes, until it is answered or all its callers have gone. That is
// transport: a fold applies a batch once.
package bus

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/event"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
	"quire.dev/pkg/wait"
)

// Config configures a Bus. Only Partitions is required; comments on other fields end with the default.
type Config struct {
	Partitions int           // of every journal
	Offset     time.Duration // QUIRE_CLOCK_OFFSET; every batch carries it

	// A journal that has lost its leader takes 4 to 9 s to elect another.
	AdmitTimeout     time.Duration // for a verdict, a void, a command; 10 s
	WriteTimeout     time.Duration // for the outcome of a write; 10 s
	ReadTimeout      time.Duration // for one answer to a read or list; 3 s
	AwayTimeout      time.Duration // for a read or list during a takeover of its partition; 8 s
	QueryTimeout     time.Duration // for a query, an explain and a user request; 10 s
	DrainTimeout     time.Duration // for pending work after Run's context ends; 10 s
	ResendAfter      time.Duration // until an unanswered batch is published again; 1 s
	Linger           time.Duration // for another item that a read's settlement can share a batch with; 20 ms
	RefusalTTL       time.Duration // lifetime of a cached final refusal, at most 1 s; 1 s
	RefusalThreshold int           // refusals of a kind before one is cached; 8
	MaxWaiting       int           // requests, and settlements, queued per journal; 32,768 each

	Shared inprocess.Shared // with services of the same process
	Traces *trace.Scope     // nil: nothing is traced

	Logger  *slog.Logger       // discarded if nil
	Metrics *telemetry.Metrics // not registered if nil
}

func (c *Config) setDefaults() error {
	if c.Partitions < 1 {
		return fmt.Errorf("%d partitions: at least 1 is needed", c.Partitions)
	}
	c.AdmitTimeout = cmp.Or(c.AdmitTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 3*time.Second)
	c.AwayTimeout = max(cmp.Or(c.AwayTimeout, 8*time.Second), c.ReadTimeout)
	c.QueryTimeout = cmp.Or(c.QueryTimeout, 10*time.Second)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, 10*time.Second)
	c.ResendAfter = cmp.Or(c.ResendAfter, time.Second)
	c.Linger = cmp.Or(c.Linger, 20*time.Millisecond)
	c.RefusalTTL = min(cmp.Or(c.RefusalTTL, maxRefusalTTL), maxRefusalTTL)
	c.RefusalThreshold = cmp.Or(c.RefusalThreshold, 8)
	c.MaxWaiting = cmp.Or(c.MaxWaiting, 32768)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Bus is safe for concurrent use.
type Bus struct {
	cfg     Config
	nc      *nats.Conn
	name    string    // of this edge in batches and answers; random on each start
	started time.Time // start of the monotonic clock that deadlines use
	ready   chan struct{}
	metrics *metrics

	usage     []*usageLane                  // by billing partition
	commands  []*commandLane                // by billing partition
	documents map[event.Domain][]*documents // by partition
	lanes     []runner                      // all of the above
	journals  []*journalWatch
	unready   atomic.Pointer[error] // see Unready
	refusals  *refusals
	askers    askers
	signals   sync.Pool // empty channels of one struct{}, for item.done
	// explaining names, for each billing partition, the instance that last worked on an explanation.
	explaining []atomic.Pointer[string]

	reports []reports // by billing partition
	// reportDue is signalled when a partition's requests fill a report.
	reportDue chan struct{}

	answers chan *nats.Msg
	// handlers by subject. All run on the goroutine of receive.
	handlers  map[string]func(data []byte) error
	onSources atomic.Pointer[func(*event.SourceCounts)] // see OnSources
}

// documents sends writes and reads to one partition of a document service.
type documents struct {
	writes *writeLane
	reads  *rpc.Batcher[*event.Read, *event.ReadAnswer]
	// known is the last journal sequence with an outcome. Reads ask for a state at least as new, so that a
	// client reads its own writes even while the partition moves to another instance.
	known atomic.Uint64
}

// answerQueue bounds the answers that wait to be handled, in messages. Core NATS drops a message that does
// not fit; its batch is then sent again.
const answerQueue = 16384

// New prepares a bus over nc, which must be connected. Nothing is published before Run.
func New(nc *nats.Conn, cfg Config) (*Bus, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("configure bus: %w", err)
	}
	if nc.MaxPayload() <= 0 {
		return nil, fmt.Errorf("new bus: %w", nats.ErrDisconnected)
	}
	var name [6]byte // short, since it is in every batch; two edges collide once in 280 billion times, and would only get no answers
	rand.Read(name[:])
	b := &Bus{
		cfg: cfg, nc: nc, name: base64.RawURLEncoding.EncodeToString(name[:]), started: time.Now(),
		ready:     make(chan struct{}),
		metrics:   newMetrics(cfg.Metrics),
		documents: map[event.Domain][]*documents{},
		refusals:  newRefusals(cfg.RefusalTTL, cfg.RefusalThreshold),
		askers:    askers{asking: map[asker]int{}},
		signals:   sync.Pool{New: func() any { return make(chan struct{}, 1) }},
		answers:   make(chan *nats.Msg, answerQueue),
		reports:   make([]reports, cfg.Partitions),
		reportDue: make(chan struct{}, 1),
		handlers:  map[string]func([]byte) error{},

		explaining: make([]atomic.Pointer[string], cfg.Partitions),
	}
	b.handlers[event.AnnounceSubject] = b.handleAnnouncement
	b.handlers[event.SourcesSubject] = b.handleSources
	for p := range cfg.Partitions {
		if err := b.addPartition(p); err != nil {
			return nil, errors.Join(err, b.closeReaders())
		}
	}
	return b, nil
}

func (b *Bus) addPartition(p int) error {
	billing := b.watch(event.Billing, p)
	usage, err := b.newUsageLane(p, billing)
	if err != nil {
		return err
	}
	commands, err := b.newCommandLane(p, billing)
	if err != nil {
		return err
	}
	b.usage, b.commands, b.lanes = append(b.usage, usage), append(b.commands, commands), append(b.lanes, usage, commands)
	b.handlers[event.VerdictSubject(b.source(p))] = func(data []byte) error { return b.handleVerdicts(usage, data) }
	b.handlers[event.CommandOutcomeSubject(b.source(p))] = func(data []byte) error { return b.handleCommandOutcomes(commands, data) }
	for _, domain := range event.Documents() {
		d := &documents{}
		if d.writes, err = b.newWriteLane(domain, p, b.watch(domain, p)); err != nil {
			return err
		}
		if d.reads, err = b.newReader(domain, p, &d.known); err != nil {
			return err
		}
		b.documents[domain], b.lanes = append(b.documents[domain], d), append(b.lanes, d.writes)
		b.handlers[domain.OutcomeSubject(b.source(p))] = func(data []byte) error { return b.handleOutcomes(d, data) }
	}
	return nil
}

// OnSources calls handle with the counts of other edges from now on, on the goroutine that reads all answers.
func (b *Bus) OnSources(handle func(*event.SourceCounts)) { b.onSources.Store(&handle) }

func (b *Bus) handleSources(data []byte) error {
	var counts event.SourceCounts
	if err := event.Decode(data, &counts); err != nil {
		return err
	}
	if handle := b.onSources.Load(); handle != nil && counts.Edge != b.name {
		(*handle)(&counts)
	}
	return nil
}

// PublishSources publishes how many calls of these sources this edge has answered. It does not wait, and delivery is not
// guaranteed.
func (b *Bus) PublishSources(counts *event.SourceCounts) error {
	counts.Edge = b.name
	data, err := event.Encode(counts)
	if err == nil {
		err = b.nc.Publish(event.SourcesSubject, data)
	}
	if err != nil {
		return fmt.Errorf("publish counts to other edges: %w", err)
	}
	return nil
}

// documentsOf returns the partition of a key: an item's id, or an idempotency id.
func (b *Bus) documentsOf(d event.Domain, key []byte) *documents {
	return b.documents[d][event.Partition(key, b.cfg.Partitions)]
}

// Ready is closed once the bus accepts requests. Earlier requests wait for it.
func (b *Bus) Ready() <-chan struct{} { return b.ready }

// Now is the edge's time, including the clock offset.
func (b *Bus) Now() time.Time { return time.Now().Add(b.cfg.Offset) }

// elapsed is the time since New, by the monotonic clock.
func (b *Bus) elapsed() time.Duration { return time.Since(b.started) }

// source names the batches to one partition. The partition is part of the name because each partition
// counts its own batches.
func (b *Bus) source(partition int) string { return fmt.Sprintf("%s.%d", b.name, partition) }

// Run subscribes to the answers and sends until ctx ends. It then accepts nothing new, stores pending settlements and
// returns nil. It returns an error if some could not be stored, or if the connection was closed. It must be called once.
func (b *Bus) Run(ctx context.Context) error {
	defer func() { _ = b.closeReaders() }() // fails only on a closed connection
	unsubscribe, err := b.subscribe()
	if err != nil {
		return err
	}
	defer unsubscribe()

	// The answers are read until the last lane has returned: its last batch waits for one.
	receiving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	background.Go(func() { b.receive(receiving) })
	background.Go(func() { b.sweep(receiving) })
	background.Go(func() { b.sendReports(receiving) })
	background.Go(func() { b.watchJournals(receiving) })
	if err := b.flush(ctx); err != nil && ctx.Err() == nil {
		return err
	}

	group, running := errgroup.WithContext(ctx)
	for _, l := range b.lanes {
		group.Go(func() error { return l.run(running) })
	}
	close(b.ready)
	err = group.Wait()
	b.finish()
	return err
}

// finish waits for the outcomes of published batches, at most for DrainTimeout. Callers that still wait get OutcomeUnknown.
// Nothing new can have been queued.
func (b *Bus) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), b.cfg.DrainTimeout)
	defer cancel()
	waiting := func() bool { return slices.ContainsFunc(b.lanes, runner.isWaiting) }
	for waiting() && !b.nc.IsClosed() {
		if !wait.For(ctx, sweepEvery) {
			break
		}
	}
	for _, l := range b.lanes {
		l.sweep(math.MaxInt64, false)
	}
}

// flush waits until the server has the subscriptions, also across reconnections.
func (b *Bus) flush(ctx context.Context) error {
	err := b.repeat(ctx, wait.Backoff{Initial: time.Second, Max: time.Second}, func(ctx context.Context) (bool, error) {
		err := b.nc.FlushWithContext(ctx)
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("subscribe to answers: %w", err)
	}
	return nil
}

// repeat makes attempts until one succeeds, ctx ends, or the connection is closed. A failed attempt takes its full time, which
// paces the attempts.
func (b *Bus) repeat(ctx context.Context, each wait.Backoff, attempt func(ctx context.Context) (done bool, err error)) error {
	for {
		limited, cancel := context.WithTimeout(ctx, each.Next())
		done, err := attempt(limited)
		done = done || b.nc.IsClosed()
		if !done {
			<-limited.Done()
		}
		cancel()
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// runner is a lane of any kind.
type runner interface {
	run(ctx context.Context) error
	sweep(now time.Duration, reconnected bool)
	isWaiting() bool
}
