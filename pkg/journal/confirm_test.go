package journal_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

func noMessage() ([]byte, error) { return []byte("empty"), nil }

// TestAStreamOfOneReplicaIsConfirmedWithoutAMessage: its only server knows its end.
func TestAStreamOfOneReplicaIsConfirmedWithoutAMessage(t *testing.T) {
	s := journaltest.Start(t)
	nc := s.Conn(t)
	ensure(t, nc, billing(0))
	publish(t, nc, testSubject, "a", "b")
	j := journal.Open(nc, "BILLING_0")
	c := j.NewConfirmer(testSubject, noMessage)
	if last, err := c.LastSequence(t.Context()); err != nil || last != 2 {
		t.Fatalf("confirmed %d, %v", last, err)
	}
	if state, err := j.State(t.Context()); err != nil || state.Last != 2 || state.Replicas != 1 {
		t.Errorf("state %+v, %v", state, err)
	}
	// Only a message proves that it can write.
	if last, err := c.Append(t.Context()); err != nil || last != 3 {
		t.Errorf("appended %d, %v", last, err)
	}
}

// TestTheEndIsConfirmedByAMajority: a leader whose peers are gone still answers questions about its store, and so does a member
// that knows of no leader. Neither answer may pass for the end of the journal.
func TestTheEndIsConfirmedByAMajority(t *testing.T) {
	t.Parallel()
	cluster := journaltest.StartCluster(t, 3)
	replicated := billing(0)
	replicated.Replicas = 3
	ensure(t, cluster.Conn(t), replicated)
	publish(t, cluster.Conn(t), testSubject, "a", "b")
	cluster.WaitCurrent(t, "BILLING_0")

	leader := cluster.LeaderOf(t, "BILLING_0")
	nc := cluster.Node(leader).Conn(t)
	j := journal.Open(nc, "BILLING_0")
	c := j.NewConfirmer(testSubject, noMessage)
	const callers = 50
	ends := make([]uint64, callers)
	var all sync.WaitGroup
	for i := range ends {
		all.Go(func() {
			last, err := c.LastSequence(t.Context())
			if err != nil {
				t.Error(err)
			}
			ends[i] = last
		})
	}
	all.Wait()
	state, err := j.State(t.Context())
	if err != nil || state.Replicas != 3 || state.Last <= 2 || state.Last > 2+callers {
		t.Errorf("state %+v, %v", state, err)
	}
	for _, last := range ends {
		if last < 2 || last > state.Last {
			t.Errorf("confirmed %d, and the journal ends at %d", last, state.Last)
		}
	}

	for i := range 3 {
		if i != leader {
			cluster.Node(i).Stop()
		}
	}
	if last, err := c.LastSequence(t.Context()); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("without its peers it confirms %d, %v", last, err)
	}
	if last, err := c.Append(t.Context()); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("without its peers it appends %d, %v", last, err)
	}
	eventually.True(t, "a member without a leader is not taken for one", func() bool {
		_, err := j.State(t.Context())
		return errors.Is(err, journal.ErrUnavailable)
	})
}

// TestConfirmationsAreFew: the journal keeps them permanently, and one caller who repeats a query must not fill it.
func TestConfirmationsAreFew(t *testing.T) {
	t.Parallel()
	cluster := journaltest.StartCluster(t, 3)
	replicated := billing(0)
	replicated.Replicas = 3
	nc := cluster.Conn(t)
	ensure(t, nc, replicated)
	cluster.WaitCurrent(t, "BILLING_0")
	c := journal.Open(nc, "BILLING_0").NewConfirmer(testSubject, noMessage)
	began, calls := time.Now(), 0
	var last uint64
	for calls < 100 || time.Since(began) < time.Second {
		end, err := c.LastSequence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if end <= last {
			t.Fatalf("confirmed %d after %d", end, last)
		}
		last = end
		calls++
	}
	if most := uint64(time.Since(began)/journal.ConfirmEvery) + 1; last > most {
		t.Errorf("%d messages in %s, want %d at most", last, time.Since(began), most)
	}
}

// TestAStaleAnswerIsAskedForAgain: at a start, a leader that was just elected or was just replaced may tell of less than
// the journal holds. Without a leader a member tells of what it has. None of these is the end of the journal.
func TestAStaleAnswerIsAskedForAgain(t *testing.T) {
	s := journaltest.Start(t, func(o *server.Options) { o.JetStream = false })
	nc := s.Conn(t)
	answers := []string{
		`{"config":{"num_replicas":3},"cluster":{"leader":"a"},"state":{"last_seq":7}}`,
		`{"config":{"num_replicas":3},"cluster":{"leader":"a"},"state":{"last_seq":9}}`,
		`{"config":{"num_replicas":3},"cluster":{},"state":{"last_seq":12}}`,
		`{"config":{"num_replicas":1},"state":{"last_seq":3}}`,
	}
	_, err := nc.Subscribe("$JS.API.STREAM.INFO.BILLING_0", func(m *nats.Msg) {
		if err := m.Respond([]byte(answers[0])); err != nil {
			t.Error(err)
		}
		answers = answers[1:]
	})
	if err != nil {
		t.Fatal(err)
	}
	j := journal.Open(nc, "BILLING_0")
	if state, err := j.StateFrom(t.Context(), 9); err != nil || state.Last != 9 {
		t.Errorf("state %+v, %v", state, err)
	}
	if state, err := j.StateFrom(t.Context(), 9); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("without a leader: state %+v, %v", state, err)
	}
	if state, err := j.StateFrom(t.Context(), 9); err != nil || state.Last != 3 {
		t.Errorf("the only server of a stream knows its end: state %+v, %v", state, err)
	}
}
