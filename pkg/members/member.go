package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Member is this process among the instances of its service.
type Member struct {
	cfg    Config
	nc     *nats.Conn
	bucket *bucket

	out  chan []int
	wake chan struct{} // mu's fields have changed
	left chan struct{} // closed once nothing is assigned any more after Leave
	done chan struct{} // closed when Run has returned

	mu      sync.Mutex
	serving map[int]bool
	leaving bool
	live    []string

	// What follows belongs to the goroutine of Join, then of Run.
	table   *table
	watcher nats.KeyWatcher // nil while there is none
	beat    uint64
	since   uint64 // revision of the first announcement
	acked   uint64 // beat that the bucket has taken
	ackedAt time.Time
	failing bool // the last announcement failed
	known   []string
}

// Join announces this process in the bucket, which it makes if there is none, and reads who else is
// there; it waits for servers that are not ready, until ctx ends. ErrPartitions where the members who are
// there have another number of partitions. After nil, Run has to be called.
func Join(ctx context.Context, nc *nats.Conn, cfg Config) (*Member, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure members: %w", err)
	}
	cfg.Logger = cfg.Logger.With("service", cfg.Service, "instance", cfg.Instance)
	bucket, err := newBucket(nc, cfg)
	if err != nil {
		return nil, fmt.Errorf("join the members of %s: %w", cfg.Service, err)
	}
	m := &Member{
		cfg: cfg, nc: nc, bucket: bucket,
		out: make(chan []int), wake: make(chan struct{}, 1), left: make(chan struct{}), done: make(chan struct{}),
		serving: map[int]bool{}, table: newTable(cfg),
	}
	if err := m.join(ctx); err != nil {
		return nil, fmt.Errorf("join the members of %s: %w", cfg.Service, err)
	}
	return m, nil
}

// join tries until it succeeds, has to give up, or ctx ends. Of members with another number of partitions it gives up
// only when they had the time to be forgotten: one that was refused and killed has not left.
func (m *Member) join(ctx context.Context) error {
	pause := time.NewTicker(min(m.cfg.Heartbeat, time.Second))
	defer pause.Stop()
	forgotten := time.Now().Add(m.cfg.TTL + m.cfg.Heartbeat)
	for {
		err := m.enter(ctx)
		if err == nil {
			return nil
		}
		m.dropWatcher()
		if errors.Is(err, ErrPartitions) && time.Now().After(forgotten) || m.nc.IsClosed() {
			return err
		}
		if ctx.Err() == nil {
			m.cfg.Logger.Warn("members can't be joined yet", "cause", err)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// enter reads the bucket, announces, and reads on until it hears itself: who announced earlier has then
// been seen.
func (m *Member) enter(ctx context.Context) error {
	initial := func(e nats.KeyValueEntry) bool { return e == nil } // which ends what was there
	if err := m.ask(ctx, request{ensure: true, watch: true}, initial); err != nil {
		return err
	}
	heard := func(nats.KeyValueEntry) bool { return m.table.own.said.Beat == m.beat }
	if err := m.ask(ctx, request{say: new(m.announcement())}, heard); err != nil {
		return err
	}
	m.table.settle(time.Now())
	if err := m.table.misfit(); err != nil {
		return errors.Join(err, m.bucket.leave())
	}
	return nil
}

// ask does something with the bucket and reads it up to the entry that is the last one wanted.
func (m *Member) ask(ctx context.Context, r request, last func(nats.KeyValueEntry) bool) error {
	result := m.bucket.do(r)
	m.take(result, time.Now())
	if result.err != nil {
		return result.err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callWait(m.cfg))
	defer cancel()
	for {
		select {
		case e, ok := <-m.watcher.Updates():
			if !ok {
				return errors.New("watch of the bucket ended")
			}
			if e != nil {
				m.notice(e, time.Now())
			}
			if last(e) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("read bucket %s: %w", Bucket, ctx.Err())
		}
	}
}

// Instance is the name under which the member is known.
func (m *Member) Instance() string { return m.cfg.Instance }

// Assigned gives the partitions to fold, sorted: first those at the start, then the whole set each time
// it has changed. Only the newest is kept for a receiver that is slow; there can be only one receiver. It
// is closed when Run returns, and the last set then stays: folding twice does no harm.
func (m *Member) Assigned() <-chan []int { return m.out }

// Live names the instances that are alive, as far as this one knows, itself included, sorted. Safe for
// concurrent use.
func (m *Member) Live() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.live)
}

// Serving tells the others that this instance serves a partition, having caught up with its journal, or
// does so no more. Whoever folded it before keeps it until then. It does not block. Safe for concurrent
// use.
func (m *Member) Serving(partition int, serving bool) {
	m.mu.Lock()
	changed := m.serving[partition] != serving
	if serving {
		m.serving[partition] = true
	} else {
		delete(m.serving, partition)
	}
	m.mu.Unlock()
	if changed {
		m.poke()
	}
}

// Leave tells the others to take over, and returns nil once they serve all that this instance folded, or
// nobody else is there; the partitions were taken from Assigned one by one meanwhile. It waits for that
// Config.Handover at most, and until ctx ends, which is its error. Run goes on until its own context ends.
func (m *Member) Leave(ctx context.Context) error {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	m.poke()
	select {
	case <-m.left:
		return nil
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hand over partitions of %s: %w", m.cfg.Service, ctx.Err())
	}
}

// Host runs the member and, beside it, what folds its assignments. When ctx ends, the partitions are
// handed over first, for which run works on; then run's context ends, and when run has returned the
// member is gone. Should run return earlier, the others take over at once. It returns run's error, or
// the member's.
func (m *Member) Host(ctx context.Context, run func(ctx context.Context) error) error {
	base := context.WithoutCancel(ctx)
	work, stopWork := context.WithCancel(base)
	defer stopWork()
	alive, stopMember := context.WithCancel(base)
	defer stopMember()
	var workErr, memberErr error
	working, worked := context.WithCancel(base)
	go func() {
		defer worked()
		workErr = run(work)
	}()
	living, died := context.WithCancel(base)
	go func() {
		defer died()
		memberErr = m.Run(alive)
	}()
	select {
	case <-working.Done():
	case <-living.Done():
	case <-ctx.Done():
		leaving, cancel := context.WithTimeout(working, m.cfg.Handover+m.cfg.Heartbeat)
		if err := m.Leave(leaving); err != nil && working.Err() == nil {
			m.cfg.Logger.Warn("partitions were not taken over in time", "cause", err)
		}
		cancel()
	}
	stopWork()
	<-working.Done()
	stopMember()
	<-living.Done()
	return errors.Join(workErr, memberErr)
}

func (m *Member) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// announcement is the next one.
func (m *Member) announcement() announcement {
	m.beat++
	said := announcement{Partitions: m.cfg.Partitions, Beat: m.beat, Since: m.since, Heard: m.table.heard}
	m.mu.Lock()
	defer m.mu.Unlock()
	said.Leaving = m.leaving
	for p := range m.table.assigned {
		if m.serving[p] {
			said.Serving = append(said.Serving, p)
		}
	}
	slices.Sort(said.Serving)
	return said
}
