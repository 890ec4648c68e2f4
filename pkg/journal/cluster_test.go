package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

func TestLeaderChangesUnderLoadLoseAndDoubleNothing(t *testing.T) {
	c := journaltest.StartCluster(t, 3)
	nc := c.Conn(t)
	replicated := billing(0)
	replicated.Replicas = 3
	ensure(t, nc, replicated)
	j := journal.Open(nc, "BILLING_0")
	var o outcomes
	cfg := config(&o)                    // MaxWait 0: nothing may fail
	cfg.MaxItems, cfg.MaxQueue = 10, 100 // many batches, not large ones
	a, stop := start(t, nc, cfg)
	var check sequenceCheck
	end := follow(t, journal.Open(c.Conn(t), "BILLING_0"), 0, check.handle)

	stopLoad := load(t, a)
	for range 3 {
		goal := len(o.ackedIDs()) + 200
		eventually.True(t, "more acknowledgements", func() bool { return len(o.ackedIDs()) >= goal })
		leader := c.LeaderOf(t, "BILLING_0")
		c.Node(leader).Stop()
		goal = len(o.ackedIDs()) + 200
		eventually.True(t, "acknowledgements by another leader", func() bool { return len(o.ackedIDs()) >= goal })
		c.Node(leader).Restart(t)
		c.WaitCurrent(t, "BILLING_0")
	}
	added := stopLoad()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if n, err := o.failures(); n > 0 || uint64(len(o.ackedIDs())) != added {
		t.Fatalf("%d added, %d acknowledged, %d failed: %v", added, len(o.ackedIDs()), n, err)
	}
	messages, folded := stored(t, j)
	mustHoldOnce(t, folded, o.ackedIDs())
	mustRepeatIdentically(t, messages)
	eventually.True(t, "the follower at the end", func() bool { return check.seen() == uint64(len(messages)) })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}

// TestWhatAConsumerDeliversKeepsItsSubject: a client that may make consumers of its stream has them deliver to the subject of
// another stream. That stores them with the subject that they were published with, on whatever servers the two are, so that
// folds can tell them from their own.
func TestWhatAConsumerDeliversKeepsItsSubject(t *testing.T) {
	c := journaltest.StartCluster(t, 3)
	nc := c.Conn(t)
	target := billing(0)
	target.Replicas = 3
	ensure(t, nc, target)
	const senders = 8       // on all of the servers
	on := map[string]bool{} // leaders of the consumers
	for n := range senders {
		name, subject := fmt.Sprintf("LITE_%d", n), fmt.Sprintf("lite.%d.request", n)
		ensure(t, nc, journal.Stream{Domain: "lite", Name: name, Subjects: []string{subject}, Replicas: 3})
		config := `{"stream_name":"` + name + `","config":{"name":"x","deliver_subject":"` + testSubject + `","deliver_policy":"all","ack_policy":"none"}}`
		m, err := nc.Request("$JS.API.CONSUMER.CREATE."+name+".x", []byte(config), 10*time.Second)
		if err != nil || strings.Contains(string(m.Data), `"error"`) {
			t.Fatalf("make a consumer: %v, %s", err, m.Data)
		}
		_, leader, _ := strings.Cut(string(m.Data), `"leader":"`)
		leader, _, _ = strings.Cut(leader, `"`)
		on[leader] = true
		publish(t, nc, subject, "forged")
	}
	if len(on) < 2 {
		t.Fatalf("all streams are on %v", on)
	}
	j := journal.Open(nc, "BILLING_0")
	eventually.True(t, "all are stored", func() bool {
		last, err := j.LastSequence(t.Context())
		return err == nil && last == senders
	})
	err := j.Replay(t.Context(), 0, senders, func(m journal.Message) error {
		if !strings.HasPrefix(m.Subject, "lite.") {
			t.Errorf("%d has the subject %s", m.Sequence, m.Subject)
		}
		return nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollowGoesOnWhenItsServerIsCutOff: no packet reports that a server is unreachable. The connection notices, and the
// follower continues at another server.
func TestFollowGoesOnWhenItsServerIsCutOff(t *testing.T) {
	c := journaltest.StartCluster(t, 3)
	nc := c.Conn(t)
	replicated := billing(0)
	replicated.Replicas = 3
	ensure(t, nc, replicated)
	url, proxies := journaltest.StartProxies(t, c)
	far, err := rpc.Connect(url, "billing", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(far.Close)
	if err := rpc.WaitConnected(t.Context(), far); err != nil {
		t.Fatal(err)
	}
	seen := make(chan uint64, 100)
	end := follow(t, journal.Open(far, "BILLING_0"), 0, func(_ context.Context, m journal.Message) error {
		seen <- m.Sequence
		return nil
	})
	mustSee := func(want uint64) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Fatalf("message %d, want %d", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("message %d never came", want)
		}
	}
	publish(t, nc, testSubject, "a", "b")
	mustSee(1)
	mustSee(2)
	left := far.ConnectedUrl()
	proxies[left].Cut()
	publish(t, nc, testSubject, "c", "d")
	mustSee(3)
	mustSee(4)
	if now := far.ConnectedUrl(); now == left {
		t.Errorf("still connected to %s", now)
	}
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}

// TestWithoutAMajorityAWriteIsUnavailable: neither a message nor a purge waits for the other servers.
func TestWithoutAMajorityAWriteIsUnavailable(t *testing.T) {
	c := journaltest.StartCluster(t, 3)
	stream := paste()
	stream.Replicas = 3
	nc := c.Conn(t)
	ensure(t, nc, stream)
	c.WaitCurrent(t, stream.Name)
	leader := c.LeaderOf(t, stream.Name)
	alone := c.Node(leader).Conn(t)
	for i := range 3 {
		if i != leader {
			c.Node(i).Stop()
		}
	}
	if err := journal.Publish(t.Context(), alone, stream.Subjects[0], nil); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("publish: %v, want %v", err, journal.ErrUnavailable)
	}
	if err := journal.Open(alone, stream.Name).Purge(t.Context(), 1); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("purge: %v, want %v", err, journal.ErrUnavailable)
	}
}

// TestWithoutAServerAQuestionIsUnavailable: callers can tell this error from those that waiting won't cure.
func TestWithoutAServerAQuestionIsUnavailable(t *testing.T) {
	s := journaltest.Start(t, journaltest.WithListener(t))
	nc, err := rpc.Connect(s.URL(), "billing", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ensure(t, nc, billing(0))
	s.Stop()
	if _, err := journal.Open(nc, "BILLING_0").State(t.Context()); !errors.Is(err, journal.ErrUnavailable) {
		t.Errorf("state: %v, want %v", err, journal.ErrUnavailable)
	}
	// Ensure waits for the server.
	eventually.True(t, "the connection is lost", func() bool { return !nc.IsConnected() })
	ensured := make(chan error, 1)
	go func() { ensured <- journal.Ensure(t.Context(), nc, []journal.Stream{billing(0)}, 1) }()
	s.Restart(t)
	if err := <-ensured; err != nil {
		t.Errorf("ensure: %v", err)
	}
}
