package journal_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// What a killed closing leaves, by the last step that it took. The last step, the next generation, leaves nothing to do.
const (
	leftOpen     = "the generation is open"
	leftMoved    = "its subjects are moved"
	leftProved   = "all servers have shown that they know"
	leftEnded    = "its last message is stored"
	leftRecorded = "its end is recorded"
)

// TestAClosingThatWasKilledIsFinished at whatever step, by the next one and by provisioning: what is acknowledged before, meanwhile and
// after is there once.
func TestAClosingThatWasKilledIsFinished(t *testing.T) {
	t.Parallel()
	steps := []string{leftOpen, leftMoved, leftEnded, leftRecorded}
	t.Run("one server", func(t *testing.T) {
		t.Parallel()
		killClosings(t, journaltest.Start(t), billing(0), steps)
	})
	t.Run("three servers", func(t *testing.T) {
		t.Parallel()
		replicated := billing(0)
		replicated.Replicas = 3
		killClosings(t, journaltest.StartCluster(t, 3).Node(0), replicated, slices.Insert(slices.Clone(steps), 2, leftProved))
	})
}

// killClosings closes generations under load, and kills the first closing of each after another step.
func killClosings(t *testing.T, s *journaltest.Server, stream journal.Stream, steps []string) {
	nc := s.Conn(t)
	ensure(t, nc, stream)
	u := use(t, func() *nats.Conn { return s.Conn(t) }, nil)
	byClosing := func(ctx context.Context) error { return journal.Advance(ctx, nc, stream, 1) }
	byProvisioning := func(ctx context.Context) error { return journal.Ensure(ctx, nc, []journal.Stream{stream}, 1) }
	for _, finish := range []func(context.Context) error{byClosing, byProvisioning} {
		for changes, left := range steps {
			u.more()
			open := generations(t, nc, 1)[0]
			killClosing(t, s, stream, changes)
			mustBeLeft(t, nc, open.Stream, left)
			if left == leftOpen {
				advance(t, nc, stream) // provisioning has nothing to finish
			} else {
				mustNotStart(t, nc, stream)
				finishClosing(t, nc, open.Stream, left, finish)
			}
			list := generations(t, nc, 2)
			if list[0].Number != open.Number {
				t.Fatalf("once finished: %+v", list)
			}
			u.more()
			u.follows(list[0].Last)
			deleteOldest(t, nc)
		}
	}
	u.end(nc)
}

// mortal connects to a server until one more than so many changes are about to be sent to it, as a process that is killed then.
type mortal struct {
	*journaltest.Server
	changes int
	killed  atomic.Bool
}

type mortalConn struct {
	net.Conn
	m *mortal
}

func (m *mortal) InProcessConn() (net.Conn, error) {
	conn, err := m.Server.InProcessConn()
	return mortalConn{conn, m}, err
}

func (c mortalConn) Write(p []byte) (int, error) {
	changes := func(request string) bool { return bytes.Contains(p, []byte("PUB "+request)) }
	if slices.ContainsFunc([]string{"$JS.API.STREAM.UPDATE.", "$JS.API.CONSUMER.CREATE.", closedSubject, "$JS.API.STREAM.CREATE."}, changes) {
		if c.m.changes == 0 {
			c.m.killed.Store(true)
			return 0, errors.Join(net.ErrClosed, c.Close())
		}
		c.m.changes--
	}
	return c.Conn.Write(p)
}

// killClosing begins to close a generation, and is killed after so many changes.
func killClosing(t *testing.T, s *journaltest.Server, stream journal.Stream, changes int) {
	t.Helper()
	eventually.NoError(t, "a closing that is killed", func() error { // one that finds a server too slow ends before
		m := &mortal{Server: s, changes: changes}
		err := journal.Advance(t.Context(), s.Conn(t, nats.InProcessServer(m), nats.NoReconnect()), stream, 1)
		switch {
		case m.killed.Load():
			return nil
		case err == nil:
			t.Fatalf("closed with %d changes", changes)
		}
		return err
	})
}

// mustBeLeft fails unless a killed closing of a stream has left what it should.
func mustBeLeft(t *testing.T, nc *nats.Conn, stream, want string) {
	t.Helper()
	s, err := jetstreamOf(t, nc).Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	proved := false
	for c := range s.ListConsumers(t.Context()).Info() {
		proved = proved || c.Config.FilterSubject == closedSubject
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(closedSubject))
	if err != nil {
		t.Fatal(err)
	}
	left := leftOpen
	switch {
	case info.Config.Metadata["quire-last"] != "":
		left = leftRecorded
	case info.State.Subjects[closedSubject] > 0:
		left = leftEnded
	case proved:
		left = leftProved
	case slices.Equal(info.Config.Subjects, []string{closedSubject}):
		left = leftMoved
	}
	if closer := info.Config.Metadata["quire-closer"]; left != want || (closer == "") != (left == leftOpen) {
		t.Fatalf("%s, closed by %q; want: %s", left, closer, want)
	}
}

// mustNotStart fails if a service starts on a journal that takes no messages.
func mustNotStart(t *testing.T, nc *nats.Conn, stream journal.Stream) {
	t.Helper()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := journal.Await(short, nc, []journal.Stream{stream}, 1, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a service starts meanwhile: %v", err)
	}
}

// finishClosing finishes what a killed closing left: at once if the end is recorded, else 20 seconds after it began.
func finishClosing(t *testing.T, nc *nats.Conn, stream, left string, finish func(context.Context) error) {
	t.Helper()
	if left != leftRecorded {
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := finish(short); err == nil {
			t.Error("it does not wait for the one that was killed")
		}
		mustBeLeft(t, nc, stream, left)
		change(t, jetstreamOf(t, nc), stream, func(c *jetstream.StreamConfig) {
			id, _, _ := strings.Cut(c.Metadata["quire-closer"], " ")
			c.Metadata["quire-closer"] = id + " " + time.Now().Add(-20*time.Second).Format(time.RFC3339Nano)
		})
	}
	if err := finish(t.Context()); err != nil {
		t.Fatal(err)
	}
}
