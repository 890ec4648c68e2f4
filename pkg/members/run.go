package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Run announces the member and follows the others until ctx ends; then it deletes the member's key, so
// that the others take over at once, and returns nil. A lost connection, a server that starts again and
// a lost bucket are survived: the assignment stays as it is meanwhile. Errors: the
// connection was closed for good; ErrPartitions where a member that came earlier, with another number of
// partitions, was not to be seen in Join. Run is called once.
func (m *Member) Run(ctx context.Context) error {
	status := m.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer m.nc.RemoveStatusListener(status)
	l := loop{Member: m, results: make(chan result, 1)}
	err := l.run(ctx, status)
	l.close()
	close(m.out)
	close(m.done)
	return err
}

// loop is one Run. All fields belong to its goroutine.
type loop struct {
	*Member
	results chan result    // of the one call of the bucket that may be under way
	busy    bool           // it is
	stops   sync.WaitGroup // of old watchers

	say     bool // an announcement is due
	rewatch bool // the watch is lost
	ensure  bool // the last call failed: the bucket may be gone

	current   []int // assignment
	delivered []int
	any       bool // one was delivered
	released  bool // left is closed
}

func (l *loop) run(ctx context.Context, status <-chan nats.Status) error {
	beat := time.NewTicker(l.cfg.Heartbeat)
	defer beat.Stop()
	due := time.NewTimer(l.cfg.TTL)
	defer due.Stop()
	l.say = true // what happened since Join
	for {
		l.decide(time.Now())
		l.call()
		if next := l.table.next(time.Now()); !next.IsZero() {
			due.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case l.offer() <- l.current:
			l.deliver()
		case <-beat.C:
			l.say = true
			l.checkWatch(time.Now())
		case <-l.wake:
			l.say = true
		case <-due.C:
			l.say = true // to hear whether the bus still carries, before anyone is given up
		case r := <-l.results:
			l.finish(r, time.Now())
		case e, ok := <-l.updates():
			l.update(e, ok)
			if err := l.table.misfit(); err != nil {
				return fmt.Errorf("member of %s: %w", l.cfg.Service, err)
			}
		case <-status:
			if l.nc.IsClosed() {
				return nats.ErrConnectionClosed
			}
			l.say = true
		}
	}
}

// offer is the channel to deliver to, nil where there is nothing new.
func (l *loop) offer() chan<- []int {
	if l.any && slices.Equal(l.current, l.delivered) {
		return nil
	}
	return l.out
}

// deliver notes that the current assignment was taken. What is not in it is being stopped, whatever
// Serving said of it: it has to be said again once it is assigned again.
func (l *loop) deliver() {
	l.delivered, l.any = l.current, true
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.serving, func(p int, _ bool) bool { return !slices.Contains(l.current, p) })
}

func (l *loop) updates() <-chan nats.KeyValueEntry {
	if l.watcher == nil {
		return nil
	}
	return l.watcher.Updates()
}

// decide makes the assignment of what is known now.
func (l *loop) decide(now time.Time) {
	l.mu.Lock()
	leaving := l.leaving
	l.mu.Unlock()
	l.table.leaving = leaving
	l.current = l.table.reassign(now)
	if leaving && len(l.current) == 0 && !l.released {
		l.released = true
		close(l.left)
	}
	live := append(l.table.names(), l.cfg.Instance)
	slices.Sort(live)
	if slices.Equal(live, l.known) {
		return
	}
	l.known = live
	l.cfg.Logger.Info("members changed", "live", live)
	if strangers := l.table.strangers(); len(strangers) > 0 {
		l.cfg.Logger.Error("members have another number of partitions and don't count", "members", strangers)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live = live
}

// call does what is due with the bucket, beside the loop: it may take as long as a server is away.
func (l *loop) call() {
	if l.busy || !l.say && !l.rewatch {
		return
	}
	l.say = false
	if !l.nc.IsConnected() {
		return // or old announcements would leave all at once, later
	}
	r := request{ensure: l.ensure, watch: l.rewatch, say: new(l.announcement())}
	l.busy, l.rewatch, l.ensure = true, false, false
	go func() { l.results <- l.bucket.do(r) }()
}

// finish takes what came of a call. What failed is tried again with the next beat.
func (l *loop) finish(r result, now time.Time) {
	l.busy = false
	if r.watcher != nil {
		l.forget(l.watcher)
	}
	l.take(r, now)
	switch {
	case r.err != nil:
		l.ensure = true
		if !l.failing {
			l.cfg.Logger.Warn("member can't announce itself, assignment stays", "cause", r.err)
		}
	case l.failing:
		l.cfg.Logger.Info("member announces itself again")
	}
	l.failing = r.err != nil
}

func (l *loop) update(e nats.KeyValueEntry, ok bool) {
	switch {
	case !ok:
		l.watcher, l.rewatch = nil, true
	case e != nil:
		if l.notice(e, time.Now()) {
			l.say = true
		}
	}
}

// checkWatch finds a watch that has fallen silent: the bucket took an announcement a beat ago, and the
// member has not heard it.
func (l *loop) checkWatch(now time.Time) {
	lost := l.acked > l.table.own.said.Beat && now.Sub(l.ackedAt) >= l.cfg.Heartbeat
	l.rewatch = l.rewatch || lost || l.watcher == nil
}

// forget ends an old watcher beside the loop.
func (l *loop) forget(w nats.KeyWatcher) {
	if w != nil {
		l.stops.Go(func() { stopWatch(w) })
	}
}

// close waits for what is under way and deletes the key, unless nobody would hear of it.
func (l *loop) close() {
	if l.busy {
		r := <-l.results
		if r.watcher != nil {
			l.forget(l.watcher)
			l.watcher = r.watcher
		}
	}
	if l.nc.IsConnected() {
		if err := l.bucket.leave(); err != nil {
			l.cfg.Logger.Warn("member could not say that it is gone, the others learn it by its silence", "cause", err)
		}
	}
	l.dropWatcher()
	l.stops.Wait()
}

// take keeps what a call came to.
func (m *Member) take(r result, now time.Time) {
	if r.watcher != nil {
		m.watcher = r.watcher
	}
	if r.err != nil || r.revision == 0 {
		return
	}
	m.acked, m.ackedAt = r.beat, now
	if m.since == 0 || r.revision < m.since { // below: the bucket was lost and made anew
		m.since = r.revision
	}
}

// notice takes an entry of the bucket and tells whether the member has to announce itself: its key was
// deleted, or partitions move, and who lets go of them waits until their owners say that they know.
func (m *Member) notice(e nats.KeyValueEntry, now time.Time) bool {
	s, err := m.bucket.read(e)
	switch {
	case err != nil:
		m.cfg.Logger.Warn("entry of the bucket is skipped", "cause", err)
	case s.instance != m.cfg.Instance:
		return m.table.see(s, now)
	case s.gone:
		return true
	default:
		m.table.hear(s, now)
	}
	return false
}

func (m *Member) dropWatcher() {
	if m.watcher != nil {
		stopWatch(m.watcher)
		m.watcher = nil
	}
}
