package journal_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
)

// load adds items from several goroutines until it is stopped, and returns how
// many it has added.
func load(t *testing.T, a *journal.Appender[item]) (stop func() uint64) {
	t.Helper()
	var (
		next atomic.Uint64
		over atomic.Bool
		wg   sync.WaitGroup
	)
	for range 4 {
		wg.Go(func() {
			for !over.Load() {
				add(t, a, item{id: next.Add(1), padding: 50})
			}
		})
	}
	return func() uint64 {
		over.Store(true)
		wg.Wait()
		return next.Load()
	}
}

// sequenceCheck is a follower's view: no gap, no repeat.
type sequenceCheck struct {
	mu   sync.Mutex
	last uint64
	data []string
}

func (c *sequenceCheck) handle(_ context.Context, m journal.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Sequence != c.last+1 {
		return fmt.Errorf("message %d after %d", m.Sequence, c.last)
	}
	c.last = m.Sequence
	c.data = append(c.data, string(m.Data))
	return nil
}

func (c *sequenceCheck) seen() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// follow runs until the test, or the returned function, ends it.
func follow(t *testing.T, j *journal.Journal, from uint64, handle func(context.Context, journal.Message) error) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- j.Follow(ctx, from, handle, journal.FollowOptions{}) }()
	end = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = end() })
	return end
}

func TestRestartsAndLostConnectionsUnderLoadLoseAndDoubleNothing(t *testing.T) {
	bothWays(t, restartsAndLostConnectionsUnderLoadLoseAndDoubleNothing)
}

func restartsAndLostConnectionsUnderLoadLoseAndDoubleNothing(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	j := s.files.Open(nc, "BILLING_0")
	var o outcomes
	cfg := s.config(&o)                  // MaxWait 0: nothing may fail
	cfg.MaxItems, cfg.MaxQueue = 10, 100 // many batches, not large ones
	a, stop := start(t, nc, cfg)
	var check sequenceCheck
	end := follow(t, s.files.Open(s.Conn(t), "BILLING_0"), 0, check.handle)

	stopLoad := load(t, a)
	for round := range 6 {
		goal := len(o.ackedIDs()) + 300
		eventually.True(t, "more acknowledgements", func() bool { return len(o.ackedIDs()) >= goal })
		if round%2 == 0 {
			s.Restart(t)
		} else {
			s.Drop()
		}
	}
	added := stopLoad()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, err := o.failures(); n > 0 {
		t.Fatalf("%d failed: %v", n, err)
	}
	messages, folded := stored(t, j)
	acked := o.ackedIDs()
	if uint64(len(acked)) != added {
		t.Fatalf("%d added, %d acknowledged", added, len(acked))
	}
	mustHoldOnce(t, folded, acked)
	mustRepeatIdentically(t, messages)
	eventually.True(t, "the follower at the end", func() bool { return check.seen() == uint64(len(messages)) })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}

// mustRepeatIdentically fails if a number that is stored twice has other items the
// second time, or if a new number is not the next one.
func mustRepeatIdentically(t *testing.T, messages []batch) {
	t.Helper()
	first := map[uint64]batch{}
	repeated := 0
	for _, m := range messages {
		if before, ok := first[m.number]; ok {
			repeated++
			if !slices.Equal(before.ids, m.ids) {
				t.Fatalf("batch %d came again with other items", m.number)
			}
			continue
		}
		if m.number != uint64(len(first)+1) {
			t.Fatalf("batch %d came for the first time after %d others", m.number, len(first))
		}
		first[m.number] = m
	}
	t.Logf("%d messages, %d of them again", len(messages), repeated)
}

func TestFollowResumesAfterTheSequenceItIsGiven(t *testing.T) {
	bothWays(t, followResumesAfterTheSequenceItIsGiven)
}

func followResumesAfterTheSequenceItIsGiven(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	publish(t, nc, testSubject, "a", "b")
	publish(t, nc, "billing.0.account", "c")
	j := s.files.Open(nc, "BILLING_0")
	for from, want := range [][]string{{"a", "b", "c", "d"}, {"b", "c", "d"}, {"c", "d"}, {"d"}} {
		caughtUp := make(chan struct{})
		got := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- j.Follow(ctx, uint64(from), func(_ context.Context, m journal.Message) error {
				got <- string(m.Data)
				return nil
			}, journal.FollowOptions{CaughtUp: func() { close(caughtUp) }})
		}()
		<-caughtUp
		if before, held := len(got), 3+min(from, 1); before != held-from {
			t.Errorf("caught up after %d messages, want %d", before, held-from)
		}
		if from == 0 {
			publish(t, nc, testSubject, "d")
		}
		for _, w := range want {
			if g := <-got; g != w {
				t.Fatalf("from %d: %q, want %q", from, g, w)
			}
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("follow returned %v", err)
		}
	}
}

func TestSlowHandlerSlowsTheServerDownAndLosesNothing(t *testing.T) {
	bothWays(t, slowHandlerSlowsTheServerDownAndLosesNothing)
}

func slowHandlerSlowsTheServerDownAndLosesNothing(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	var check sequenceCheck
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	end := follow(t, s.files.Open(s.Conn(t), "BILLING_0"), 0, func(ctx context.Context, m journal.Message) error {
		once.Do(func() {
			close(held)
			<-hold
		})
		return check.handle(ctx, m)
	})
	publish(t, nc, testSubject, "first")
	<-held
	const messages, size = 600, 100 << 10 // 60 MB, more than any window
	payload := make([]byte, size)
	for i := range messages {
		binary.BigEndian.PutUint64(payload, uint64(i))
		if err := nc.Publish(testSubject, payload); err != nil {
			t.Fatal(err)
		}
	}
	j := s.files.Open(nc, "BILLING_0")
	eventually.True(t, "all in the stream", func() bool {
		last, err := j.LastSequence(t.Context())
		return err == nil && last == messages+1
	})
	close(hold)
	eventually.True(t, "all handled", func() bool { return check.seen() == messages+1 })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}
