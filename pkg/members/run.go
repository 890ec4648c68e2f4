package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// run announces the member and follows the others until ctx ends. Then it deletes the member's key, so that the others take
// over at once, and returns nil. While the connection, the server or the bucket is lost the assignment stays unchanged. run
// returns an error if the connection is closed permanently, and ErrPartitions if it reads of an earlier member with another
// number of partitions. It is called once.
func (m *Member) run(ctx context.Context) error {
	status := m.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer m.nc.RemoveStatusListener(status)
	l := loop{Member: m, results: make(chan result, 1)}
	err := l.run(ctx, status)
	l.close(context.WithoutCancel(ctx))
	close(m.out)
	close(m.done)
	return err
}

// loop is the state of one run. All fields belong to its goroutine.
type loop struct {
	*Member
	results chan result    // of the call in progress
	calling bool           // a call of the bucket is in progress; one at most
	stops   sync.WaitGroup // of old watches

	announce bool // an announcement is due
	rewatch  bool // the watch is lost
	find     bool // the last call failed: the bucket may be gone

	current   []int // assignment
	delivered []int
	any       bool // an assignment was delivered
	released  bool // left is closed
}

func (l *loop) run(ctx context.Context, status <-chan nats.Status) error {
	beat := time.NewTicker(l.cfg.Heartbeat)
	defer beat.Stop()
	due := time.NewTimer(l.cfg.TTL)
	defer due.Stop()
	l.announce = true // for changes since join
	for {
		l.decide(time.Now())
		l.call(ctx)
		if next := l.table.due(time.Now()); !next.IsZero() {
			due.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case l.receiver() <- l.current:
			l.deliver()
		case <-beat.C:
			l.announce = true
			l.checkWatch(time.Now())
		case <-l.wake:
			l.announce = true
		case <-due.C:
			l.announce = true // a silent peer is forgotten only once this is read
		case r := <-l.results:
			l.finish(r, time.Now())
		case e, ok := <-l.updates():
			l.update(e, ok)
			if err := l.table.conflict(); err != nil {
				return fmt.Errorf("member of %s: %w", l.cfg.Service, err)
			}
		case <-status:
			if l.nc.IsClosed() {
				return nats.ErrConnectionClosed
			}
			l.announce = true
		}
	}
}

// receiver returns the channel of assignments, or nil if the current one was delivered.
func (l *loop) receiver() chan<- []int {
	if l.any && slices.Equal(l.current, l.delivered) {
		return nil
	}
	return l.out
}

// deliver records that the current assignment was received. Partitions missing from it are being stopped, even if they were
// served: call Serving again when they come back.
func (l *loop) deliver() {
	l.delivered, l.any = l.current, true
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.serving, func(p int, _ bool) bool { return !slices.Contains(l.current, p) })
}

func (l *loop) updates() <-chan jetstream.KeyValueEntry {
	if l.watch == nil {
		return nil
	}
	return l.watch.Updates()
}

// decide computes the assignment from the present knowledge.
func (l *loop) decide(now time.Time) {
	live := l.table.live()
	l.mu.Lock()
	l.table.leaving = l.leaving
	changed := !slices.Equal(live, l.live)
	l.live = live
	l.mu.Unlock()
	l.current = l.table.reassign(now)
	if l.table.leaving && len(l.current) == 0 && !l.released {
		l.released = true
		close(l.left)
	}
	if !changed {
		return
	}
	l.cfg.Logger.Info("members changed", "live", live)
	if ignored := l.table.ignored(); len(ignored) > 0 {
		l.cfg.Logger.Error("members with another number of partitions are ignored", "members", ignored)
	}
}

// call starts the bucket operations that are due. It does not wait for them, because a server may be unreachable.
func (l *loop) call(ctx context.Context) {
	if l.calling || !l.announce && !l.rewatch {
		return
	}
	l.announce = false
	if !l.nc.IsConnected() {
		return // the client would buffer the announcements and send all of them later
	}
	c := call{find: l.find, watch: l.rewatch, announce: new(l.nextAnnouncement())}
	l.calling, l.rewatch, l.find = true, false, false
	go func() { l.results <- l.bucket.do(ctx, c) }()
}

// finish handles the result of a call. The next heartbeat retries a failed one.
func (l *loop) finish(r result, now time.Time) {
	l.calling = false
	if r.watch != nil {
		l.replaceWatch()
	}
	l.keep(r, now)
	switch {
	case r.err != nil:
		l.find = true
		if !l.failing {
			l.cfg.Logger.Warn("member can't announce itself, assignment unchanged", "cause", r.err)
		}
	case l.failing:
		l.cfg.Logger.Info("member announces itself again")
	}
	l.failing = r.err != nil
}

func (l *loop) update(e jetstream.KeyValueEntry, ok bool) {
	switch {
	case !ok:
		l.stopWatch()
		l.rewatch = true
	case e != nil:
		if l.read(e, time.Now()) {
			l.announce = true
		}
	}
}

// checkWatch detects a silent watch: the bucket stored an announcement a heartbeat ago, and the watch has not delivered it.
func (l *loop) checkWatch(now time.Time) {
	lost := l.acked > l.table.own.Beat && now.Sub(l.ackedAt) >= l.cfg.Heartbeat
	l.rewatch = l.rewatch || lost || l.watch == nil
}

// replaceWatch stops the old watch in the background.
func (l *loop) replaceWatch() {
	if old := l.watch; old != nil {
		l.stops.Go(old.stop)
	}
}

// close waits for a call in progress and deletes the key if the server is reachable.
func (l *loop) close(ctx context.Context) {
	if l.calling {
		if r := <-l.results; r.watch != nil {
			l.replaceWatch()
			l.watch = r.watch
		}
	}
	if l.nc.IsConnected() {
		if err := l.bucket.leave(ctx); err != nil {
			l.cfg.Logger.Warn("member could not delete its key, the others will notice its silence", "cause", err)
		}
	}
	l.stopWatch()
	l.stops.Wait()
}

// keep records the outcome of a call.
func (m *Member) keep(r result, now time.Time) {
	if r.watch != nil {
		m.watch = r.watch
	}
	if r.err != nil || r.revision == 0 {
		return
	}
	m.acked, m.ackedAt = r.beat, now
	if m.since == 0 || r.revision < m.since { // lower: the bucket was lost and recreated
		m.since = r.revision
	}
}

// read handles an entry of the bucket and reports whether the member must announce itself before its next heartbeat: its key
// was deleted, or partitions move and their former replicas wait for the owners to confirm.
func (m *Member) read(e jetstream.KeyValueEntry, now time.Time) bool {
	read, err := m.bucket.entry(e)
	switch {
	case err != nil:
		m.cfg.Logger.Warn("entry of the bucket skipped", "cause", err)
	case read.instance != m.cfg.Instance:
		return m.table.readPeer(read, now)
	case read.deleted:
		return true
	default:
		m.table.readOwn(read, now)
	}
	return false
}

func (m *Member) stopWatch() {
	if m.watch != nil {
		m.watch.stop()
		m.watch = nil
	}
}
