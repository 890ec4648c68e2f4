package journal_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

func nothing(context.Context, journal.Message) error { return nil }

func TestFollowNoticesWhatIsMissing(t *testing.T) { bothWays(t, followNoticesWhatIsMissing) }

func followNoticesWhatIsMissing(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc := s.Conn(t)
	ensure(t, nc, paste())
	publish(t, nc, "paste.0.request", "a", "b", "c")
	j := s.files.Open(nc, "PASTE_0")
	if err := j.Follow(t.Context(), 4, nothing, journal.FollowOptions{}); !errors.Is(err, journal.ErrTruncated) {
		t.Errorf("after 4 of 3: %v, want ErrTruncated", err)
	}
	if err := j.Replay(t.Context(), 0, 4, func(journal.Message) error { return nil }, nil); !errors.Is(err, journal.ErrTruncated) {
		t.Errorf("replay to 4 of 3: %v, want ErrTruncated", err)
	}
	if err := j.Purge(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if err := j.Follow(t.Context(), 1, nothing, journal.FollowOptions{}); !errors.Is(err, journal.ErrGap) {
		t.Errorf("after 1, with 2 purged: %v, want ErrGap", err)
	}
	n := 0
	if err := j.Replay(t.Context(), 2, 3, func(journal.Message) error { n++; return nil }, nil); err != nil || n != 1 {
		t.Errorf("after 2, with 2 purged: %d messages, %v", n, err)
	}
	if err := s.files.Open(nc, "NONE").Follow(t.Context(), 0, nothing, journal.FollowOptions{}); !errors.Is(err, journal.ErrNoStream) {
		t.Errorf("a stream that is not there: %v, want ErrNoStream", err)
	}
}

func TestFollowNoticesAGapAmongTheMessages(t *testing.T) {
	bothWays(t, followNoticesAGapAmongTheMessages)
}

func followNoticesAGapAmongTheMessages(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc := s.Conn(t)
	cfg := paste()
	ensure(t, nc, cfg)
	publish(t, nc, "paste.0.request", "a", "b", "c")
	js := jetstreamOf(t, nc)
	// As if the file had lost one: a stream like ours refuses deletes.
	if err := js.DeleteStream(t.Context(), "PASTE_0"); err != nil {
		t.Fatal(err)
	}
	var made jetstream.Stream
	// The server refuses while it still removes the old files.
	eventually.NoError(t, "the stream is made again", func() (err error) {
		made, err = js.CreateStream(t.Context(), streamThatDeletes())
		return err
	})
	publish(t, nc, "paste.0.request", "a", "b", "c")
	if err := made.DeleteMsg(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	var seen []uint64
	err := s.files.Open(nc, "PASTE_0").Follow(t.Context(), 0, func(_ context.Context, m journal.Message) error {
		seen = append(seen, m.Sequence)
		return nil
	}, journal.FollowOptions{})
	if !errors.Is(err, journal.ErrGap) || len(seen) != 1 {
		t.Fatalf("err = %v after %v, want ErrGap after 1", err, seen)
	}
}

func TestFollowEndsWithTheHandlersError(t *testing.T) { bothWays(t, followEndsWithTheHandlersError) }

func followEndsWithTheHandlersError(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	publish(t, nc, testSubject, "a", "b", "c")
	broken := errors.New("broken")
	var calls atomic.Int64
	err := s.files.Open(nc, "BILLING_0").Follow(t.Context(), 0, func(_ context.Context, m journal.Message) error {
		calls.Add(1)
		if m.Sequence == 2 {
			return broken
		}
		return nil
	}, journal.FollowOptions{})
	if !errors.Is(err, broken) || calls.Load() != 2 {
		t.Fatalf("err = %v after %d calls, want broken after 2", err, calls.Load())
	}
}

func TestFollowEndsWithItsConnection(t *testing.T) { bothWays(t, followEndsWithItsConnection) }

func followEndsWithItsConnection(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	ensure(t, s.Conn(t), billing(0))
	nc := s.Conn(t)
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.files.Open(nc, "BILLING_0").Follow(t.Context(), 0, nothing, journal.FollowOptions{CaughtUp: func() { close(ready) }})
	}()
	<-ready
	nc.Close()
	if err := <-done; !errors.Is(err, journal.ErrClosed) {
		t.Fatalf("follow returned %v, want ErrClosed", err)
	}
}

func TestFollowOutlivesItsConsumer(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0))
	var check sequenceCheck
	end := follow(t, journal.Open(nc, "BILLING_0"), 0, check.handle)
	publish(t, nc, testSubject, "a")
	eventually.True(t, "the first message", func() bool { return check.seen() == 1 })
	s, err := jetstreamOf(t, nc).Stream(t.Context(), "BILLING_0")
	if err != nil {
		t.Fatal(err)
	}
	for c := range s.ListConsumers(t.Context()).Info() {
		if err := s.DeleteConsumer(t.Context(), c.Name); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, nc, testSubject, "b")
	eventually.True(t, "the second message", func() bool { return check.seen() == 2 })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}

func TestFollowDoesNotMissWhatTheConnectionDrops(t *testing.T) {
	bothWays(t, followDoesNotMissWhatTheConnectionDrops)
}

func followDoesNotMissWhatTheConnectionDrops(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc, follower := s.Conn(t), s.Conn(t)
	ensure(t, nc, billing(0))
	var check sequenceCheck
	end := follow(t, s.files.Open(follower, "BILLING_0"), 0, check.handle)
	for round := range uint64(5) {
		publish(t, nc, testSubject, "a", "b", "c")
		eventually.True(t, "all messages", func() bool { return check.seen() == 3*(round+1) })
		s.Drop()
		eventually.True(t, "connections", func() bool { return nc.IsConnected() && nc.Flush() == nil })
	}
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}

func TestReplayReportsItsProgress(t *testing.T) { bothWays(t, replayReportsItsProgress) }

func replayReportsItsProgress(t *testing.T, boot func(*testing.T) testServer) {
	s := boot(t)
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	const messages = 2500
	for range messages {
		if err := nc.Publish(testSubject, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	j := s.files.Open(nc, "BILLING_0")
	eventually.True(t, "all in the stream", func() bool {
		last, err := j.LastSequence(t.Context())
		return err == nil && last == messages
	})
	handled := 0
	var reports []uint64
	err := j.Replay(t.Context(), 100, 2400, func(journal.Message) error { handled++; return nil }, func(done, total uint64) {
		if total != 2300 || done != uint64(handled) {
			t.Errorf("report %d of %d after %d", done, total, handled)
		}
		reports = append(reports, done)
	})
	if err != nil || handled != 2300 || len(reports) != 3 || reports[2] != 2300 {
		t.Fatalf("%d handled, reports %v, %v", handled, reports, err)
	}
	eventually.True(t, "the connection's own inbox is the only subscription", func() bool { return nc.NumSubscriptions() <= 1 })
}
