package limit

import (
	"net/netip"
	"testing"
	"time"
)

func TestUnmeteredCallsAreLimitedByAccountAndSource(t *testing.T) {
	const rate, burst = 5, 5 * unmeteredBurst
	source := netip.MustParseAddr("192.0.2.1")
	for name, take := range map[string]func(u *Unmetered, turn *Turn, now time.Time) int{
		"an account by its key": func(u *Unmetered, turn *Turn, now time.Time) int { return u.TakeAccount(turn, 7, 1<<40, now) },
		"a session":             func(u *Unmetered, turn *Turn, now time.Time) int { return u.TakeAccount(turn, 7, 0, now) },
		"a source": func(u *Unmetered, turn *Turn, now time.Time) int {
			_, seconds := u.TakeNetwork(turn, source, now)
			return seconds
		},
	} {
		u, now := NewUnmetered(plainHash, rate), time.Now()
		call := func() int {
			var turn Turn
			seconds := take(u, &turn, now)
			u.Keep(&turn)
			return seconds
		}
		for n := range burst {
			if seconds := call(); seconds > 0 {
				t.Fatalf("%s: call %d waits %d s", name, n+1, seconds)
			}
		}
		if seconds := call(); seconds != 1 {
			t.Errorf("%s: one too many waits %d s, want 1", name, seconds)
		}
		now = now.Add(time.Second)
		for n := range rate {
			if seconds := call(); seconds > 0 {
				t.Errorf("%s: call %d of the next second waits %d s", name, n+1, seconds)
			}
		}
		if call() == 0 {
			t.Errorf("%s: one too many in the next second", name)
		}
	}
}

func TestUnmeteredCallsOfAnIPv6SiteAreLimited(t *testing.T) {
	const rate = 1
	u, now := NewUnmetered(plainHash, rate), time.Now()
	for n := range rate * unmeteredBurst * sourcesOfSite {
		var turn Turn
		if _, seconds := u.TakeNetwork(&turn, address(1, byte(n)), now); seconds > 0 {
			t.Fatalf("call %d waits %d s", n+1, seconds)
		}
		u.Keep(&turn)
	}
	var turn Turn
	limit, seconds := u.TakeNetwork(&turn, address(1, 255), now)
	if seconds < 1 || limit != rate*sourcesOfSite || turn != (Turn{}) {
		t.Errorf("one too many: limit %d, wait %d s, taken %v", limit, seconds, turn)
	}
	if _, seconds := u.TakeNetwork(&turn, address(2, 1), now); seconds > 0 {
		t.Errorf("another site waits %d s", seconds)
	}
}

// TestAKeyThatIsNotValidUsesUpItsOwnRateAlone: one that was revoked can't keep its account from calling.
func TestAKeyThatIsNotValidUsesUpItsOwnRateAlone(t *testing.T) {
	u, now := NewUnmetered(plainHash, 1), time.Now()
	const account, revoked, valid = 7, 1 << 40, 1 << 41
	for n := range 3 * unmeteredBurst {
		var turn Turn
		seconds := u.TakeAccount(&turn, account, revoked, now)
		if (seconds == 0) != (n < unmeteredBurst) {
			t.Errorf("call %d of the revoked key waits %d s", n+1, seconds)
		}
		u.ReturnAccount(&turn)
		u.Keep(&turn)
	}
	for n := range unmeteredBurst {
		var turn Turn
		if seconds := u.TakeAccount(&turn, account, valid, now); seconds > 0 {
			t.Errorf("call %d of the valid key waits %d s", n+1, seconds)
		}
		u.Keep(&turn)
	}
	var turn Turn
	if u.TakeAccount(&turn, account, valid+1, now) == 0 || turn != (Turn{}) {
		t.Error("another key of the account has a rate of its own")
	}
}

// TestReturnedCallsAreNotLimited: those that a quota counts after all.
func TestReturnedCallsAreNotLimited(t *testing.T) {
	u, now := NewUnmetered(plainHash, 1), time.Now()
	for n := range 3 * unmeteredBurst {
		var turn Turn
		if seconds := u.TakeAccount(&turn, 7, 1<<40, now); seconds > 0 {
			t.Fatalf("call %d waits %d s", n+1, seconds)
		}
		u.Return(&turn)
	}
	if callers, sites := u.Drain(); len(callers)+len(sites) > 0 {
		t.Errorf("other edges are notified of them: %v %v", callers, sites)
	}
}

func TestARateOfZeroIsNoLimit(t *testing.T) {
	u := NewUnmetered(plainHash, 0)
	if u != nil {
		t.Fatal("there is a limit")
	}
	u.Merge(nil, nil, time.Now())
	if callers, sites := u.Drain(); callers != nil || sites != nil {
		t.Error("it counts")
	}
}
