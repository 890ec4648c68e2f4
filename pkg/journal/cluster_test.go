package journal_test

import (
	"context"
	"errors"
	"testing"

	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

func TestLeaderChangesUnderLoadLoseAndDoubleNothing(t *testing.T) {
	c := journaltest.StartCluster(t, 3)
	nc := c.Conn(t)
	replicated := billing(0)
	replicated.Replicas = 3
	ensure(t, nc, replicated)
	j := journal.Open(nc, "BILLING_0")
	var o outcomes
	cfg := config(&o) // MaxWait 0: nothing may fail
	cfg.MaxItems = 10
	a, stop := start(t, nc, cfg)
	var check sequenceCheck
	end := follow(t, journal.Open(c.Conn(t), "BILLING_0"), 0, check.handle)

	stopLoad := load(t, a)
	for range 3 {
		goal := len(o.ackedIDs()) + 200
		journaltest.Eventually(t, "more acknowledgements", func() bool { return len(o.ackedIDs()) >= goal })
		leader := c.LeaderOf(t, "BILLING_0")
		c.Node(leader).Stop()
		goal = len(o.ackedIDs()) + 200
		journaltest.Eventually(t, "acknowledgements by another leader", func() bool { return len(o.ackedIDs()) >= goal })
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
	journaltest.Eventually(t, "the follower at the end", func() bool { return check.seen() == uint64(len(messages)) })
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Fatalf("follow returned %v", err)
	}
}
