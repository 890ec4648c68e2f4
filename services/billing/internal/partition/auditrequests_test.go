package partition

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
)

// TestTheLatestRequestsAreHeld: of a replay the latest requests are held with all their changes, as many as wanted, also if requests are
// decided again and the journal's clock goes back.
func TestTheLatestRequestsAreHeld(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	maxHeld, goesBack := 1+random.IntN(5*runChanges), random.IntN(2) == 0
	held, all := newReplayedRequests(maxHeld, 0), map[event.RequestID]*replayedRequest{}
	holds := map[event.RequestID]int64{} // times
	statuses := []string{account.SettlementOpen, account.SettlementServed, account.SettlementVoid}
	var ids []event.RequestID
	var decided []int64 // times
	now := int64(1000)
	for sequence := uint64(1); sequence < 1000; sequence++ {
		if now += random.Int64N(3); goesBack && random.IntN(100) == 0 {
			now -= random.Int64N(500)
		}
		var changes []account.RequestChange
		for range random.IntN(60) {
			c := account.RequestChange{TimeMillis: now, Status: statuses[random.IntN(len(statuses))], Settled: true}
			switch again := random.IntN(50) == 0; {
			case len(ids) == 0 || random.IntN(2) == 0 && !again:
				binary.BigEndian.PutUint64(c.Request[:], uint64(len(ids)))
				ids = append(ids, c.Request)
				holds[c.Request] = now
				c.Decided, c.Paid, c.CostMicros = true, true, random.Uint64()
			default:
				c.Request = ids[max(0, len(ids)-1-random.IntN(200))]
				c.Decided, c.Late = again, !again && random.IntN(5) == 0
			}
			if c.Decided {
				decided = append(decided, now)
				all[c.Request] = &replayedRequest{c, sequence, sequence}
			} else if !c.Late {
				c.TimeMillis = holds[c.Request]
			}
			change := replayedRequest{c, sequence, sequence}
			all[c.Request].change(&change)
			changes = append(changes, c)
		}
		held.apply(sequence, changes)
	}
	held.join()
	if len(held.byID) > maxHeld {
		t.Fatalf("%d requests are held, and %d at most are wanted", len(held.byID), maxHeld)
	}
	if surplus := len(decided) - maxHeld; !goesBack && surplus > 0 && held.oldest != decided[surplus-1]+1 {
		t.Fatalf("requests are held from %d on: the last of the %d before the wanted ones is of %d", held.oldest, surplus, decided[surplus-1])
	}
	for id, want := range all {
		have := held.byID[id]
		switch {
		case want.TimeMillis >= held.oldest && (have == nil || *have != *want):
			t.Fatalf("request %s is held as %v, and is %v", id, have, want)
		case have != nil && have.TimeMillis < held.oldest:
			t.Fatalf("request %s of %d is held, and the oldest is of %d", id, have.TimeMillis, held.oldest)
		}
	}
}
