package account

import (
	"errors"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestNewRulesDecideNothingAnew: a history under the first rules comes to the same answers and the same ledger whether
// newer rules follow or not, and what was paid before them does not move.
func TestNewRulesDecideNothingAnew(t *testing.T) {
	h := newHistory(t, nil)
	h.rules = RulesFirst
	h.prices(plan.Published(10))
	h.account(alice, plan.Pro)
	h.grant(alice, 100_000, 0)
	h.use(alice, plan.FilesGet, 499)
	failing, _ := h.batchOf(alice, plan.FilesGet, 2)
	good := h.admission(alice, plan.FilesGet)
	h.want(good, admitted)
	h.served(good)
	before, entries := len(h.messages), len(h.ledger)
	if h.fold.Rules() != RulesFirst || h.fold.accounts[alice].terms != 0 {
		t.Fatal("rules that no event names are in force")
	}

	h.rules = NewestRules
	h.prices(plan.Published(10))
	h.failed(failing[0])
	h.failed(failing[1])
	if u := h.usedBy(alice, plan.FilesGet); h.fold.Rules() != NewestRules || u.Used != 500 || u.Overage != 1 || len(h.ledger) != entries {
		t.Fatalf("what the first rules decided has moved: %v", u)
	}
	h.sound()
	again := New()
	for _, m := range h.messages[:before] {
		if _, err := again.Apply(m); err != nil {
			t.Fatal(err)
		}
	}
	if again.Rules() != RulesFirst {
		t.Fatal("the part before has other rules")
	}
}

// TestAFoldStopsAtRulesThatItDoesNotKnow: it would decide otherwise than the others.
func TestAFoldStopsAtRulesThatItDoesNotKnow(t *testing.T) {
	h := newHistory(t, nil)
	h.rules = NewestRules + 1
	book := PriceEvent(plan.Published(10))
	book.Rules = h.rules
	data, err := event.Encode(book)
	if err != nil {
		t.Fatal(err)
	}
	for sequence := range uint64(2) {
		effects, err := h.fold.Apply(Message{Sequence: sequence + 1, TimeMillis: h.now, Kind: Prices, Data: data})
		if !errors.Is(err, ErrRules) || len(effects.Answers) != 0 {
			t.Fatalf("folded with %v", err)
		}
	}
	old := New()
	if err := old.Know(RulesFirst); err != nil {
		t.Fatal(err)
	}
	book.Rules = RulesHeld
	if data, err = event.Encode(book); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Apply(Message{Sequence: 1, TimeMillis: h.now, Kind: Prices, Data: data}); !errors.Is(err, ErrRules) {
		t.Fatalf("a fold of the version before: %v", err)
	}
	if _, err := old.Image(); !errors.Is(err, ErrRules) {
		t.Fatalf("its snapshot: %v", err)
	}
}

// TestOldPricesDoNotComeBack: under the second rules a book has no effect that the live instances did not agree on, such as
// that of an older program which takes a partition over.
func TestOldPricesDoNotComeBack(t *testing.T) {
	h := newHistory(t, nil)
	publish := func(limit int64, rules uint32, agreed bool) int64 {
		b := plan.Published(10)
		b.Terms[plan.Pro][plan.FilesUpload].Limit = limit
		e := PriceEvent(b)
		e.StampMs, e.Rules, e.Agreed = h.now, rules, agreed
		h.append(Prices, e)
		return h.fold.book.Terms[plan.Pro][plan.FilesUpload].Limit
	}
	for i, c := range []struct {
		limit  int64
		rules  uint32
		agreed bool
		want   int64
	}{
		{1, 0, false, 1}, {2, 0, false, 2}, // under the first rules every book counts
		{3, RulesHeld, true, 3}, {2, 0, false, 3}, {2, RulesHeld, false, 3}, {4, 0, true, 4},
	} {
		if got := publish(c.limit, c.rules, c.agreed); got != c.want {
			t.Errorf("book %d: limit %d, want %d", i, got, c.want)
		}
	}
	if h.fold.Rules() != RulesHeld {
		t.Errorf("rules %d", h.fold.Rules())
	}
	h.sound()
}

// TestAnEarlierPriceBookDoesNotComeBack: who may read the last price book from a server that is behind can have the server's
// answer stored as if it were published again. Offsets of development clocks do not count.
func TestAnEarlierPriceBookDoesNotComeBack(t *testing.T) {
	h := newHistory(t, nil)
	publish := func(limit, stamp, offset int64) int64 {
		b := plan.Published(10)
		b.Terms[plan.Pro][plan.FilesUpload].Limit = limit
		e := PriceEvent(b)
		e.StampMs, e.OffsetMs, e.Rules, e.Agreed = stamp+offset, offset, RulesHolders, true
		h.append(Prices, e)
		return h.fold.book.Terms[plan.Pro][plan.FilesUpload].Limit
	}
	first := h.now
	for i, c := range []struct{ limit, stamp, offset, want int64 }{
		{1, first, 0, 1}, {2, first + 1, 0, 2}, {1, first, 0, 2}, {3, first + 1, 0, 3}, {1, first, 3_600_000, 3}, {4, first + 2, 0, 4},
	} {
		if got := publish(c.limit, c.stamp, c.offset); got != c.want {
			t.Errorf("book %d: limit %d, want %d", i, got, c.want)
		}
	}
	h.sound()
}
