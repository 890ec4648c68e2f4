package web

import (
	"bytes"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestGuessesAreLimitedByTargetAndSource(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	g := newGuessLimit(6, time.Hour, 2, 10*time.Minute)
	source := func(n int) netip.Addr { return netip.MustParseAddr("10.0.0." + strconv.Itoa(n)) }
	try := func(n int) (*guess, bool) {
		a, wait := g.begin("owner@example.org", source(n), now)
		if (a == nil) != (wait > 0) {
			t.Fatalf("guess %v, wait %d", a, wait)
		}
		return a, a != nil
	}
	must := func(n int, want bool, what string) *guess {
		t.Helper()
		a, ok := try(n)
		if ok != want {
			t.Errorf("%s: guessed %v", what, ok)
		}
		return a
	}
	owner := must(1, true, "the owner")
	owner.foundRight()
	for range 3 {
		must(2, true, "one source, up to its limit")
	}
	must(2, false, "beyond it")
	for range 3 {
		must(3, true, "another source")
	}
	must(4, true, "the last one of all")
	must(5, false, "a source that is new, once the address has too many")
	must(1, true, "the owner, who is not locked out").foundRight()
	for range 3 {
		must(1, true, "somebody at the owner's source")
	}
	must(1, false, "who has the limit of a source")
	if _, wait := g.begin("somebody@example.org", source(5), now); wait > 0 {
		t.Error("another address is refused too")
	}
	now = now.Add(10 * time.Minute)
	must(1, true, "the owner, later")
	must(2, false, "a source that guessed")
	now = now.Add(50 * time.Minute)
	must(2, true, "much later").takenBack()
}

// TestAGuessThatIsNotDecidedDoesNotCount: the store or the turns were at fault.
func TestAGuessThatIsNotDecidedDoesNotCount(t *testing.T) {
	g := newGuessLimit(1, time.Minute, 0, 0)
	source, now := netip.MustParseAddr("10.0.0.1"), time.Unix(1_800_000_000, 0)
	for range 10 {
		a, wait := g.begin("id", source, now)
		if wait > 0 {
			t.Fatal("refused")
		}
		a.takenBack()
	}
	// Guesses at the same time count from their beginning.
	for n := range 3 {
		if _, wait := g.begin("id", source, now); (wait > 0) != (n == 2) {
			t.Errorf("guess %d: wait %d", n+1, wait)
		}
	}
}

// TestEachKindOfPasswordHasTurnsOfItsOwn: who keeps one kind busy keeps nobody waiting for another.
func TestEachKindOfPasswordHasTurnsOfItsOwn(t *testing.T) {
	s, _ := startServer(t, Config{PasswordHashes: 1}, func(*Server) {})
	kinds := []*hasher{s.signInHashes, s.registrationHashes, s.documentHashes}
	for i, busy := range kinds {
		if !busy.turns.TryAcquire(1) {
			t.Fatalf("kind %d is busy already", i)
		}
		if busy.turns.TryAcquire(1) {
			t.Errorf("kind %d has more than one turn", i)
		}
		for j, other := range kinds {
			if i != j {
				if _, err := other.hash(t.Context(), "password"); err != nil {
					t.Errorf("kind %d waits for kind %d: %v", j, i, err)
				}
			}
		}
		busy.turns.Release(1)
	}
}

// TestFailuresThatBeginAtOnceDoNotGetPastALimit: one more than the limit may be under way.
func TestFailuresThatBeginAtOnceDoNotGetPastALimit(t *testing.T) {
	const limit = 100
	f, now := newFailureLog[string](limit, time.Minute), time.Unix(1_800_000_000, 0)
	var begun atomic.Int32
	var all sync.WaitGroup
	for range 4 * limit {
		all.Go(func() {
			if f.begin("source", now) == 0 {
				begun.Add(1)
			}
		})
	}
	all.Wait()
	if begun.Load() != limit+1 {
		t.Errorf("%d began, want %d", begun.Load(), limit+1)
	}
	f.takeBack("source", now)
	if f.begin("source", now) != 0 || f.begin("source", now) == 0 {
		t.Error("one that is taken back makes room for one")
	}
}

// TestAPeerWithoutAnAddressIsASource: connections through a Unix socket have none.
func TestAPeerWithoutAnAddressIsASource(t *testing.T) {
	for source, want := range map[netip.Addr][]byte{
		{}: {}, netip.MustParseAddr("192.0.2.7"): {192, 0, 2}, netip.MustParseAddr("2001:db8:7:8::"): {0x20, 1, 0x0d, 0xb8, 0, 7},
	} {
		if got := neighbourhoodBytes(source); !bytes.Equal(got, want) {
			t.Errorf("%v: %v", source, got)
		}
		if got := networkBytes(source); (len(got) == 0) != !source.IsValid() {
			t.Errorf("network of %v: %v", source, got)
		}
	}
}
