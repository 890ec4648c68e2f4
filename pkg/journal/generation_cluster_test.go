package journal_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/journal/journaltest"
)

// TestGenerationsOfACluster: as above on three servers, whose leaders are stopped at random meanwhile. A closing that fails then is
// repeated.
func TestGenerationsOfACluster(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := journaltest.StartCluster(t, 3)
	nc := c.Conn(t)
	replicated := billing(0)
	replicated.Replicas = 3
	ensure(t, nc, replicated)
	u := use(t, func() *nats.Conn { return c.Conn(t) }, nil)
	for range 4 {
		u.more()
		open := slices.Clone(generations(t, nc, 1))[0].Stream
		stopped := -1
		var stopping sync.WaitGroup
		if random.IntN(2) == 0 {
			stopped = c.LeaderOf(t, open)
			stopping.Go(func() { c.Node(stopped).Stop() })
		}
		err := journal.Advance(t.Context(), nc, replicated, 1)
		stopping.Wait()
		if stopped >= 0 {
			c.Node(stopped).Restart(t)
		} else if err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "a new generation", func() bool {
			err := journal.Advance(t.Context(), nc, replicated, 1)
			return err == nil || errors.Is(err, journal.ErrGenerations)
		})
		list := generations(t, nc, 2)
		u.more()
		u.follows(list[0].Last)
		c.WaitCurrent(t, list[1].Stream)
		deleteOldest(t, nc)
	}
	u.end(nc)
}

// TestAGenerationIsNotClosedWithoutAllServers, and stays open.
func TestAGenerationIsNotClosedWithoutAllServers(t *testing.T) {
	t.Parallel()
	c := journaltest.StartCluster(t, 3)
	nc := c.Conn(t)
	replicated := billing(0)
	replicated.Replicas = 3
	ensure(t, nc, replicated)
	publish(t, nc, testSubject, "1")
	leader := c.LeaderOf(t, "BILLING_0")
	other := (leader + 1) % 3
	c.Node(other).Stop()
	eventually.True(t, "the leader to notice", func() bool {
		r, err := journal.Open(nc, "BILLING_0").Replication(t.Context())
		return err == nil && slices.ContainsFunc(r.Peers, func(p journal.Replica) bool { return p.Offline })
	})
	if err := journal.Advance(t.Context(), nc, replicated, 1); !errors.Is(err, journal.ErrUnavailable) || !strings.Contains(err.Error(), "journaltest-"+strconv.Itoa(other)) {
		t.Errorf("got %v", err)
	}
	publish(t, nc, testSubject, "2")
	generations(t, nc, 1)
}
