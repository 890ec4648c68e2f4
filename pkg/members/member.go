package members

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Member is this process as one instance of its service. It joins when Host is called, so that a service that follows its
// assignments can be built, and operators can get answers, before any server is available.
type Member struct {
	cfg    Config
	nc     *nats.Conn
	bucket *bucket

	out  chan []int
	wake chan struct{} // serving or leaving has changed
	left chan struct{} // closed once nothing is assigned after leave
	done chan struct{} // closed when run has returned

	mu      sync.Mutex
	serving map[int]bool
	leaving bool
	live    []string

	// Owned by the goroutine of join, and then by run's.
	table   *table
	watch   *watch // may be nil
	beat    uint64 // beat of the last announcement
	since   uint64 // revision of the first announcement
	acked   uint64 // beat of the last announcement stored in the bucket
	ackedAt time.Time
	failing bool // the last call failed
}

// New returns a Member without contacting a server.
func New(nc *nats.Conn, cfg Config) *Member {
	cfg = cfg.withDefaults()
	cfg.Logger = cfg.Logger.With("service", cfg.Service, "instance", cfg.Instance)
	return &Member{
		cfg: cfg, nc: nc,
		out: make(chan []int), wake: make(chan struct{}, 1), left: make(chan struct{}), done: make(chan struct{}),
		serving: map[int]bool{}, table: newTable(cfg),
	}
}

// Instance is the member's name.
func (m *Member) Instance() string { return m.cfg.Instance }

// Live returns the names of live instances as far as this one knows, including itself, sorted; none before it has joined. Safe
// for concurrent use.
func (m *Member) Live() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.live)
}

// Assigned delivers the partitions to fold, sorted: first the initial ones, then the whole set after each change. It has one
// receiver; a slow one gets only the newest set. The channel is closed before Host returns. The receiver may then keep folding
// the last set, because folding twice is harmless.
func (m *Member) Assigned() <-chan []int { return m.out }

// Serving announces that this instance has caught up with a partition's journal and serves it, or no longer does. Former
// replicas give the partition up after that. It does not block. Safe for concurrent use.
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
		m.signal()
	}
}

// Host joins, waiting for a server if needed, and then runs the member beside work, which folds the assigned partitions. When
// ctx ends, Host hands the partitions over while work goes on; then it cancels work's context, and once work has returned it
// ends the member. If work returns earlier, the others take over at once. Host returns the errors of both; ErrPartitions if the
// others have another number of partitions; and nil if ctx ends before it has joined. Call it once.
func (m *Member) Host(ctx context.Context, work func(ctx context.Context) error) error {
	if err := m.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	base := context.WithoutCancel(ctx)
	workCtx, stopWork := context.WithCancel(base)
	defer stopWork()
	runCtx, stopRun := context.WithCancel(base)
	defer stopRun()
	var workErr, runErr error
	working, worked := context.WithCancel(base)
	go func() {
		defer worked()
		workErr = work(workCtx)
	}()
	running, ran := context.WithCancel(base)
	go func() {
		defer ran()
		runErr = m.run(runCtx)
	}()
	select {
	case <-working.Done():
	case <-running.Done():
	case <-ctx.Done():
		leaving, cancel := context.WithTimeout(working, m.cfg.Handover+m.cfg.Heartbeat)
		if err := m.leave(leaving); err != nil && working.Err() == nil {
			m.cfg.Logger.Warn("partitions were not taken over in time", "cause", err)
		}
		cancel()
	}
	stopWork()
	<-working.Done()
	stopRun()
	<-running.Done()
	return errors.Join(workErr, runErr)
}

// StopTime bounds the stop of Host, not counting work's own.
func (m *Member) StopTime() time.Duration {
	return m.cfg.Handover + m.cfg.Heartbeat + 2*callTimeout(m.cfg)
}

// join announces this process in the bucket and reads the other members. It waits for missing servers and a missing bucket
// until ctx ends. After nil, call run.
func (m *Member) join(ctx context.Context) error {
	if err := m.cfg.validate(); err != nil {
		return fmt.Errorf("configure members: %w", err)
	}
	var err error
	if m.bucket, err = newBucket(m.nc, m.cfg); err == nil {
		err = m.keepJoining(ctx)
	}
	if err != nil {
		return fmt.Errorf("join the members of %s: %w", m.cfg.Service, err)
	}
	return nil
}

// keepJoining tries until it succeeds, ctx ends, or the connection is closed permanently. ErrPartitions ends it only after a
// TTL: the member with the other number may have been killed, and is forgotten by then.
func (m *Member) keepJoining(ctx context.Context) error {
	pause := time.NewTicker(min(m.cfg.Heartbeat, time.Second))
	defer pause.Stop()
	deadForgotten := time.Now().Add(m.cfg.TTL + m.cfg.Heartbeat)
	for {
		err := m.tryJoin(ctx)
		if err == nil {
			return nil
		}
		m.stopWatch()
		if errors.Is(err, ErrPartitions) && time.Now().After(deadForgotten) || m.nc.IsClosed() {
			return err
		}
		if ctx.Err() == nil {
			m.cfg.Logger.Warn("can't join the members yet", "cause", err)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// tryJoin reads the bucket, announces the member, and reads up to its own announcement, and so all earlier ones.
func (m *Member) tryJoin(ctx context.Context) error {
	initial := func(e jetstream.KeyValueEntry) bool { return e == nil } // ends a watch's initial entries
	if err := m.callAndRead(ctx, call{find: true, watch: true}, initial); err != nil {
		return err
	}
	own := func(jetstream.KeyValueEntry) bool { return m.table.own.Beat == m.beat }
	if err := m.callAndRead(ctx, call{announce: new(m.nextAnnouncement())}, own); err != nil {
		return err
	}
	m.table.backdate(time.Now())
	if err := m.table.conflict(); err != nil {
		return errors.Join(err, m.bucket.leave(context.WithoutCancel(ctx)))
	}
	return nil
}

// callAndRead makes a call of the bucket and reads entries up to the last one wanted.
func (m *Member) callAndRead(ctx context.Context, c call, last func(jetstream.KeyValueEntry) bool) error {
	result := m.bucket.do(ctx, c)
	m.keep(result, time.Now())
	if result.err != nil {
		return result.err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout(m.cfg))
	defer cancel()
	for {
		select {
		case e, ok := <-m.watch.Updates():
			if !ok {
				return errors.New("watch of the bucket ended")
			}
			if e != nil {
				m.read(e, time.Now())
			}
			if last(e) {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("read bucket %s: %w", Bucket, ctx.Err())
		}
	}
}

// leave asks the others to take over. Each partition leaves Assigned once they serve it. leave returns nil when none is left,
// after Config.Handover at most, or ctx's error if that ends first. run goes on until its own context ends.
func (m *Member) leave(ctx context.Context) error {
	m.mu.Lock()
	m.leaving = true
	m.mu.Unlock()
	m.signal()
	select {
	case <-m.left:
		return nil
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hand over partitions of %s: %w", m.cfg.Service, ctx.Err())
	}
}

// signal wakes run.
func (m *Member) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Member) nextAnnouncement() announcement {
	m.beat++
	next := announcement{Partitions: m.cfg.Partitions, Beat: m.beat, Since: m.since, Heard: m.table.heard}
	m.mu.Lock()
	defer m.mu.Unlock()
	next.Leaving = m.leaving
	for p := range m.table.assigned {
		if m.serving[p] {
			next.Serving = append(next.Serving, p)
		}
	}
	slices.Sort(next.Serving)
	return next
}
