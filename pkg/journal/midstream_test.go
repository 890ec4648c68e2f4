package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// backlog publishes messages and waits until the stream has them.
func backlog(t *testing.T, nc *nats.Conn, messages, size int) {
	t.Helper()
	payload := make([]byte, size)
	for range messages {
		if err := nc.Publish(testSubject, payload); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "all in the stream", func() bool {
		last, err := journal.Open(nc, "BILLING_0").LastSequence(t.Context())
		return err == nil && last == uint64(messages)
	})
}

// deleteConsumers deletes all consumers of a stream.
func deleteConsumers(t *testing.T, nc *nats.Conn, stream string) {
	t.Helper()
	s, err := jetstreamOf(t, nc).Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	for c := range s.ListConsumers(t.Context()).Info() {
		if err := s.DeleteConsumer(t.Context(), c.Name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAFaultInTheMiddleOfABacklogLosesAndDoublesNothing(t *testing.T) {
	for name, fault := range map[string]func(*testing.T, testServer, *nats.Conn){
		"restart":          func(t *testing.T, s testServer, _ *nats.Conn) { s.Restart(t) },
		"lost connections": func(_ *testing.T, s testServer, _ *nats.Conn) { s.Drop() },
		"deleted consumer": func(t *testing.T, _ testServer, nc *nats.Conn) { deleteConsumers(t, nc, "BILLING_0") },
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, boot func(*testing.T) testServer) { faultInABacklog(t, boot(t), fault) })
		})
	}
}

// faultInABacklog has the fault happen while a message is handled, with more of them on their way.
func faultInABacklog(t *testing.T, s testServer, fault func(*testing.T, testServer, *nats.Conn)) {
	const messages, every = 9000, 2000
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	backlog(t, nc, messages, 100)
	var check sequenceCheck
	at, on := make(chan struct{}), make(chan struct{})
	end := follow(t, s.files.Open(s.Conn(t), "BILLING_0"), 0, func(ctx context.Context, m journal.Message) error {
		if m.Sequence%every == 0 {
			at <- struct{}{}
			<-on
		}
		return check.handle(ctx, m)
	})
	for range messages / every {
		<-at
		fault(t, s, nc)
		on <- struct{}{}
	}
	eventually.True(t, "all messages", func() bool { return check.seen() == messages })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}

// TestAFollowerNoticesThatItsStreamIsAnother: without a message that would tell it.
func TestAFollowerNoticesThatItsStreamIsAnother(t *testing.T) {
	for name, test := range map[string]struct {
		again bool
		want  error
	}{
		"deleted":               {false, journal.ErrNoStream},
		"deleted and made anew": {true, journal.ErrTruncated},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, boot func(*testing.T) testServer) {
				s := boot(t)
				nc := s.Conn(t)
				ensure(t, nc, billing(0))
				publish(t, nc, testSubject, "a", "b", "c")
				ready, done := make(chan struct{}), make(chan error, 1)
				go func() {
					done <- s.files.Open(nc, "BILLING_0").Follow(t.Context(), 0, nothing, journal.FollowOptions{CaughtUp: func() { close(ready) }})
				}()
				<-ready
				if err := jetstreamOf(t, nc).DeleteStream(t.Context(), "BILLING_0"); err != nil {
					t.Fatal(err)
				}
				if test.again {
					// The server refuses while it still removes the old files.
					eventually.NoError(t, "the stream is made again", func() error {
						return journal.Ensure(t.Context(), nc, []journal.Stream{billing(0)}, 1)
					})
				}
				if err := <-done; !errors.Is(err, test.want) {
					t.Errorf("follow returned %v, want %v", err, test.want)
				}
			})
		})
	}
}

// TestWhatWaitsForASlowHandlerIsBounded: a client asks for no more than it has room for, however much the stream has.
func TestWhatWaitsForASlowHandlerIsBounded(t *testing.T) {
	const messages, size, bound = 900, 100 << 10, 40 << 20 // 90 MB
	s := journaltest.Start(t)
	nc, follower := s.Conn(t), s.Conn(t)
	ensure(t, nc, billing(0))
	backlog(t, nc, messages, size)
	hold, held := make(chan struct{}), make(chan struct{}, 1)
	release := sync.OnceFunc(func() { close(hold) })
	defer release()
	var check sequenceCheck
	end := follow(t, journal.Open(follower, "BILLING_0"), 0, func(ctx context.Context, m journal.Message) error {
		if m.Sequence == 10 {
			held <- struct{}{}
			<-hold
		}
		return check.handle(ctx, m)
	})
	<-held
	received := func() uint64 { return follower.Stats().InBytes }
	for before := uint64(0); received()-before > size; { // until no more messages come
		before = received()
		for range 50 {
			if _, err := journal.Open(follower, "BILLING_0").State(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := received(); got > bound {
		t.Errorf("%d MB wait for the handler, want %d at most", got>>20, bound>>20)
	}
	release()
	eventually.True(t, "all handled", func() bool { return check.seen() == messages })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}

func TestAFollowerEndsWithItsContextWhileTheServerIsDown(t *testing.T) {
	bothWays(t, func(t *testing.T, boot func(*testing.T) testServer) {
		s := boot(t)
		nc := s.Conn(t)
		ensure(t, nc, billing(0))
		var check sequenceCheck
		end := follow(t, s.files.Open(nc, "BILLING_0"), 0, check.handle)
		publish(t, nc, testSubject, "a")
		eventually.True(t, "the message", func() bool { return check.seen() == 1 })
		s.Stop()
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Errorf("follow returned %v", err)
		}
	})
}

// TestWhatIsPulledKeepsItsSubject: a client that may ask a consumer for messages has them sent to the subject of another stream.
// That stores them with the subject that they were published with, so that folds can tell them from their own.
func TestWhatIsPulledKeepsItsSubject(t *testing.T) {
	nc := journaltest.Start(t).Conn(t)
	ensure(t, nc, billing(0), paste())
	publish(t, nc, "paste.0.request", "forged")
	config := `{"stream_name":"PASTE_0","config":{"name":"x","deliver_policy":"all","ack_policy":"none"}}`
	m, err := nc.Request("$JS.API.CONSUMER.CREATE.PASTE_0.x", []byte(config), 10*time.Second)
	if err != nil || strings.Contains(string(m.Data), `"error"`) {
		t.Fatalf("make a consumer: %v, %s", err, m.Data)
	}
	// The second finds no message: its status goes the same way, and is empty, as the signs of life of a consumer that pushes are.
	for range 2 {
		if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.PASTE_0.x", testSubject, []byte(`{"batch":1,"no_wait":true}`)); err != nil {
			t.Fatal(err)
		}
	}
	j := journal.Open(nc, "BILLING_0")
	eventually.True(t, "both are stored", func() bool {
		last, err := j.LastSequence(t.Context())
		return err == nil && last >= 2
	})
	var got []string
	err = j.Replay(t.Context(), 0, 2, func(m journal.Message) error {
		got = append(got, fmt.Sprintf("%s %q", m.Subject, m.Data))
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{`paste.0.request "forged"`, testSubject + ` ""`}; !slices.Equal(got, want) {
		t.Errorf("stored %s, want %s", got, want)
	}
}
