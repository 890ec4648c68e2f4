// Package bus is the edge's side of the message bus: it asks billing for admissions, settles reads,
// publishes writes, and asks the document services. It knows no HTTP.
//
// Every failure is a *fault.Error: Unavailable, when the thing asked for was certainly not done,
// or OutcomeUnknown, when it was published, or may have been, and nothing confirmed it in time.
// That the caller's context ended is reported by the same two kinds, with the context's error as
// the cause. What no message can hold is TooLarge.
package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
)

// Config says how the bus behaves. Only Partitions must be set.
type Config struct {
	Source     string           // names this edge's batches, letters and digits; must be new for each boot. Drawn at random where empty
	Partitions int              // of every journal
	Clock      func() time.Time // the edge's clock, Offset already included; time.Now().Add(Offset) where nil
	Offset     time.Duration    // QUIRE_CLOCK_OFFSET, told in every batch

	// A journal that has lost its leader takes 4 to 9 s to elect another.
	AdmitTimeout  time.Duration // for a verdict, a void, a command; 10 s
	WriteTimeout  time.Duration // for the outcome of a write; 10 s
	ReadTimeout   time.Duration // for the answer to a read and to a list; 3 s
	AwayTimeout   time.Duration // for a read and a list whose partition nobody answers for, while it is taken over; 8 s
	QueryTimeout  time.Duration // for a query, an explain and a user request; 10 s
	DrainTimeout  time.Duration // for what still waits when Run's context ends; 10 s
	ResendAfter   time.Duration // a batch unanswered for so long is published again; 1 s
	RefusalTTL    time.Duration // how long a final refusal is remembered; 1 s, and at most that
	RefusalsFirst int           // refusals of a kind that billing is asked for before one is remembered; 8
	MaxWaiting    int           // requests, and settlements, that may wait for one journal; 32,768 each

	Logger  *slog.Logger       // discards where nil
	Metrics *telemetry.Metrics // none where nil
}

func (c *Config) setDefaults() error {
	var faults []error
	if c.Partitions < 1 {
		faults = append(faults, fmt.Errorf("partitions is %d, must be at least 1", c.Partitions))
	}
	if c.Source == "" {
		var b [8]byte
		rand.Read(b[:])
		c.Source = hex.EncodeToString(b[:])
	}
	for _, r := range c.Source {
		// It becomes a token of subjects.
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') {
			faults = append(faults, fmt.Errorf("source %q has other characters than letters and digits", c.Source))
			break
		}
	}
	if c.Clock == nil {
		offset := c.Offset
		c.Clock = func() time.Time { return time.Now().Add(offset) }
	}
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&c.AdmitTimeout, 10 * time.Second},
		{&c.WriteTimeout, 10 * time.Second},
		{&c.ReadTimeout, 3 * time.Second},
		{&c.AwayTimeout, 8 * time.Second},
		{&c.QueryTimeout, 10 * time.Second},
		{&c.DrainTimeout, 10 * time.Second},
		{&c.ResendAfter, time.Second},
		{&c.RefusalTTL, maxRefusalTTL},
	} {
		if *d.value <= 0 {
			*d.value = d.otherwise
		}
	}
	c.AwayTimeout = max(c.AwayTimeout, c.ReadTimeout)
	c.RefusalTTL = min(c.RefusalTTL, maxRefusalTTL)
	if c.RefusalsFirst <= 0 {
		c.RefusalsFirst = 8
	}
	if c.MaxWaiting <= 0 {
		c.MaxWaiting = 32768
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(faults...)
}

// Bus is safe for concurrent use.
type Bus struct {
	cfg     Config
	nc      *nats.Conn
	started time.Time // the zero of all deadlines, by the monotonic clock
	ready   chan struct{}
	metrics *metrics

	usage    []*usageLane   // by billing partition
	commands []*commandLane // by billing partition
	requests map[event.Domain][]*requestLane
	reads    map[event.Domain][]*rpc.Batcher[*event.Read, *event.ReadAnswer]
	// known is, by domain and partition, the last journal sequence an outcome has come from. Reads ask
	// for no older state, so that a client reads its own writes also while a partition changes hands.
	known map[event.Domain][]atomic.Uint64

	refusals *refusals
	answers  chan *nats.Msg
}

// answerQueue is how many messages of answers may wait to be read. One that finds no room is lost
// like any other of core NATS, and its batch is sent again.
const answerQueue = 16384

// New prepares a bus over nc, which must be connected. Nothing is published before Run.
func New(nc *nats.Conn, cfg Config) (*Bus, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("configure bus: %w", err)
	}
	if nc.MaxPayload() <= 0 {
		return nil, fmt.Errorf("new bus: %w", nats.ErrDisconnected)
	}
	b := &Bus{
		cfg: cfg, nc: nc, started: time.Now(),
		ready:    make(chan struct{}),
		requests: map[event.Domain][]*requestLane{},
		known:    map[event.Domain][]atomic.Uint64{},
		reads:    map[event.Domain][]*rpc.Batcher[*event.Read, *event.ReadAnswer]{},
		refusals: newRefusals(cfg.RefusalTTL, cfg.RefusalsFirst),
		answers:  make(chan *nats.Msg, answerQueue),
		metrics:  newMetrics(cfg.Metrics),
	}
	if err := b.makeLanes(); err != nil {
		return nil, err
	}
	if err := b.makeReaders(); err != nil {
		return nil, errors.Join(err, b.closeReaders())
	}
	return b, nil
}

func (b *Bus) makeLanes() error {
	for p := range b.cfg.Partitions {
		usage, err := b.newUsageLane(p)
		if err != nil {
			return err
		}
		b.usage = append(b.usage, usage)
		commands, err := b.newCommandLane(p)
		if err != nil {
			return err
		}
		b.commands = append(b.commands, commands)
		for _, d := range event.Documents() {
			requests, err := b.newRequestLane(d, p)
			if err != nil {
				return err
			}
			b.requests[d] = append(b.requests[d], requests)
		}
	}
	return nil
}

// Ready is closed once the bus takes requests. Those made earlier wait for it.
func (b *Bus) Ready() <-chan struct{} { return b.ready }

// Now is the edge's time, the clock offset included.
func (b *Bus) Now() time.Time { return b.cfg.Clock() }

// source names the batches to one partition. Numbers are counted by partition, so the partition
// must be in the name for an answer to be told from one of another partition.
func (b *Bus) source(partition int) string { return fmt.Sprintf("%s.%d", b.cfg.Source, partition) }

// Run subscribes to the answers and sends until ctx ends. It then takes nothing new, stores the
// settlements that still wait, and returns nil; an error says that some could not be stored, or
// that the connection was closed. Called once.
func (b *Bus) Run(ctx context.Context) error {
	defer func() { _ = b.closeReaders() }() // fails only where the connection is closed
	unsubscribe, err := b.subscribe()
	if err != nil {
		return err
	}
	defer unsubscribe()

	// The answers are read until the last appender has returned: its last batch waits for one.
	receiving, stop := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	background.Go(func() { b.receive(receiving) })
	background.Go(func() { b.sweep(receiving) })
	if err := b.flush(ctx); err != nil && ctx.Err() == nil {
		return err
	}

	group, running := errgroup.WithContext(ctx)
	for _, l := range b.lanes() {
		group.Go(func() error { return l.run(running) })
	}
	close(b.ready)
	err = group.Wait()
	b.finish()
	return err
}

// finish waits for the outcomes of what was published, and lets go all who still wait after
// DrainTimeout. Nothing new can have been queued.
func (b *Bus) finish() {
	limit := time.NewTimer(b.cfg.DrainTimeout)
	defer limit.Stop()
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for b.waiting() && !b.nc.IsClosed() {
		select {
		case <-tick.C:
			continue
		case <-limit.C:
		}
		break
	}
	for _, l := range b.lanes() {
		l.sweep(math.MaxInt64, false)
	}
}

// waiting tells whether anybody waits for an answer.
func (b *Bus) waiting() bool {
	return slices.ContainsFunc(b.lanes(), func(l runner) bool { return l.waiting() })
}

// flush waits until the server has the subscriptions, over reconnections.
func (b *Bus) flush(ctx context.Context) error {
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		err := b.nc.FlushWithContext(attempt)
		if err != nil && !b.nc.IsClosed() {
			<-attempt.Done()
		}
		cancel()
		switch {
		case err == nil:
			return nil
		case b.nc.IsClosed():
			return fmt.Errorf("subscribe to answers: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

// runner is a lane of any kind.
type runner interface {
	run(ctx context.Context) error
	sweep(now time.Duration, reconnected bool)
	waiting() bool
}

func (b *Bus) lanes() []runner {
	var all []runner
	for p := range b.cfg.Partitions {
		all = append(all, b.usage[p], b.commands[p])
		for _, d := range event.Documents() {
			all = append(all, b.requests[d][p])
		}
	}
	return all
}

// elapsed is the time since New, by the monotonic clock.
func (b *Bus) elapsed() time.Duration { return time.Since(b.started) }
