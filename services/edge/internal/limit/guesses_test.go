package limit

import (
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestGuessesAreLimitedByTargetAndSource(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	g := NewGuesses(6, time.Hour, 2, 10*time.Minute)
	source := func(n int) netip.Addr { return netip.MustParseAddr("10.0.0." + strconv.Itoa(n)) }
	try := func(n int) (*Guess, bool) {
		a, wait := g.Begin("owner@example.org", source(n), now)
		if (a == nil) != (wait > 0) {
			t.Fatalf("guess %v, wait %d", a, wait)
		}
		return a, a != nil
	}
	must := func(n int, want bool, what string) *Guess {
		t.Helper()
		a, ok := try(n)
		if ok != want {
			t.Errorf("%s: guessed %v", what, ok)
		}
		return a
	}
	owner := must(1, true, "the owner")
	owner.Right()
	for range 3 {
		must(2, true, "one source, up to its limit")
	}
	must(2, false, "beyond it")
	for range 3 {
		must(3, true, "another source")
	}
	must(4, true, "the last one of all")
	must(5, false, "a source that is new, once the address has too many")
	must(1, true, "the owner, who is not locked out").Right()
	for range 3 {
		must(1, true, "somebody at the owner's source")
	}
	must(1, false, "who has the limit of a source")
	if _, wait := g.Begin("somebody@example.org", source(5), now); wait > 0 {
		t.Error("another address is refused too")
	}
	now = now.Add(10 * time.Minute)
	must(1, true, "the owner, later")
	must(2, false, "a source that guessed")
	now = now.Add(50 * time.Minute)
	must(2, true, "much later").Undecided()
}

// TestAGuessThatIsNotDecidedDoesNotCount: the store or the turns were at fault.
func TestAGuessThatIsNotDecidedDoesNotCount(t *testing.T) {
	g := NewGuesses(1, time.Minute, 0, 0)
	source, now := netip.MustParseAddr("10.0.0.1"), time.Unix(1_800_000_000, 0)
	for range 10 {
		a, wait := g.Begin("id", source, now)
		if wait > 0 {
			t.Fatal("refused")
		}
		a.Undecided()
	}
	// Guesses at the same time count from their beginning.
	for n := range 3 {
		if _, wait := g.Begin("id", source, now); (wait > 0) != (n == 2) {
			t.Errorf("guess %d: wait %d", n+1, wait)
		}
	}
}

// TestFailuresThatBeginAtOnceDoNotGetPastALimit: one more than the limit may be under way.
func TestFailuresThatBeginAtOnceDoNotGetPastALimit(t *testing.T) {
	const limit = 100
	f, now := NewFailures[string](limit, time.Minute), time.Unix(1_800_000_000, 0)
	var begun atomic.Int32
	var all sync.WaitGroup
	for range 4 * limit {
		all.Go(func() {
			if f.Begin("source", now) == 0 {
				begun.Add(1)
			}
		})
	}
	all.Wait()
	if begun.Load() != limit+1 {
		t.Errorf("%d began, want %d", begun.Load(), limit+1)
	}
	f.TakeBack("source", now)
	if f.Begin("source", now) != 0 || f.Begin("source", now) == 0 {
		t.Error("one that is taken back makes room for one")
	}
}
