package limit

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/event"
)

// TestARateHoldsForEachCallerOverAllEdges: a burst of 300 at once, one a minute after that.
func TestARateHoldsForEachCallerOverAllEdges(t *testing.T) {
	const burst = 300
	now := time.Now()
	one, other := NewRate(1/60.0, burst), NewRate(1/60.0, burst)
	for n := range burst {
		if one.Admit(1, now) != 0 {
			t.Fatalf("call %d is refused", n+1)
		}
	}
	if one.Admit(2, now) != 0 {
		t.Error("another caller is limited too")
	}
	other.Merge(one.Drain(), now)
	for name, edge := range map[string]*Rate{"this": one, "another": other} {
		for after, want := range map[time.Duration]int{0: 60, 30 * time.Second: 30, 59 * time.Second: 1} {
			if seconds := edge.Admit(1, now.Add(after)); seconds < want || seconds > want+1 {
				t.Errorf("%s edge after %s: wait %d s, want %d", name, after, seconds, want)
			}
		}
		later := now.Add(61 * time.Second)
		if edge.Admit(1, later) != 0 || edge.Admit(1, later) == 0 {
			t.Errorf("%s edge after a minute: not one more", name)
		}
	}
}

func TestCallsAtATimeDoNotGetPastARate(t *testing.T) {
	const burst = 500
	r, now := NewRate(1, burst), time.Now()
	var admitted atomic.Int32
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range burst {
				if r.Admit(1, now) == 0 {
					admitted.Add(1)
				}
			}
		})
	}
	all.Wait()
	if admitted.Load() != burst {
		t.Errorf("%d admitted, want %d", admitted.Load(), burst)
	}
}

// TestManyCallersPushNobodyOut: one who has reached the limit stays refused, and one who has not is let through, whoever calls
// beside them.
func TestManyCallersPushNobodyOut(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const burst = 10
	r, now := NewRate(1, burst), time.Now()
	const greedy, modest = event.AccountID(1), event.AccountID(2)
	for range burst {
		r.Admit(greedy, now)
	}
	for range 4 * rowSlots {
		r.Admit(event.AccountID(random.Uint64()), now)
	}
	if r.Admit(greedy, now) == 0 {
		t.Error("one who has reached the limit was forgotten")
	}
	if seconds := r.Admit(modest, now); seconds > 0 {
		t.Errorf("one who has not called waits for %d s", seconds)
	}
	if len(r.slots) != rows*rowSlots || len(r.fresh) > maxDrained {
		t.Errorf("%d slots, %d to notify of", len(r.slots), len(r.fresh))
	}
}

func TestACallThatIsReturnedMakesRoomForOne(t *testing.T) {
	r, now := NewRate(1, 2), time.Now()
	take := func(what string, want bool) {
		t.Helper()
		if got := r.Take(1, now) == 0; got != want {
			t.Errorf("%s: let through %v", what, got)
		}
	}
	take("the first", true)
	take("the second", true)
	take("the third", false)
	r.Return(1)
	take("after a return", true)
	take("and one more", false)
	if counts := r.Drain(); len(counts) > 0 {
		t.Errorf("other edges are notified of calls that were not kept: %v", counts)
	}
	r.Keep(1)
	if counts := r.Drain(); len(counts) != 1 || counts[0].Calls != 1 {
		t.Errorf("a call that was kept: %v", counts)
	}
}

func BenchmarkRate(b *testing.B) {
	r, now := NewRate(1e9, 1<<30), time.Now()
	b.ReportAllocs()
	for range b.N {
		r.Take(1, now)
		r.Keep(1)
	}
}
