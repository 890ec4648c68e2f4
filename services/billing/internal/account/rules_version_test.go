package account

import (
	"bytes"
	"errors"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// rules2 are made-up successors of today's rules, for tests of two versions side by side.
const rules2 = NewestRules + 1

// successor is a history folded by a program of the next version.
func successor(t *testing.T) *history {
	t.Helper()
	h := newHistory(t, nil)
	h.know(rules2)
	h.prices(plan.Published(10))
	return h
}

// know makes the program know a version of the rules.
func (h *history) know(rules uint32) {
	h.t.Helper()
	if err := h.fold.Know(rules); err != nil {
		h.t.Fatalf("%v", err)
	}
	h.newest = rules
}

// TestNewRulesDecideNothingAgain: a history under the first rules leads to the same answers and ledger whether newer rules
// follow or not, and earlier payments do not move.
func TestNewRulesDecideNothingAgain(t *testing.T) {
	h := successor(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 100_000, 0)
	h.use(alice, plan.FilesGet, 499)
	failing, _ := h.batchOf(alice, plan.FilesGet, 2)
	good := h.admission(alice, plan.FilesGet)
	h.want(good, admitted)
	h.served(good)
	before, entries := len(h.messages), len(h.ledger)
	if h.fold.Rules() != NewestRules {
		t.Fatal("rules that no event names are in force")
	}

	h.rules = rules2
	h.prices(plan.Published(10))
	h.failed(failing[0])
	h.failed(failing[1])
	if u := h.usedBy(alice, plan.FilesGet); h.fold.Rules() != rules2 || u.Used != 500 || u.Overage != 1 || len(h.ledger) != entries {
		t.Fatalf("what the first rules decided has moved: %v", u)
	}
	if v := h.usage([]*event.Admission{h.admission(alice, plan.FilesGet)}, nil); v.Rules != rules2 {
		t.Fatalf("the edge is told of rules %d", v.Rules)
	}
	h.sound()
	again := New()
	for _, m := range h.messages[:before] {
		if _, err := again.Apply(m); err != nil {
			t.Fatal(err)
		}
	}
	if again.Rules() != NewestRules {
		t.Fatal("the part before has other rules")
	}
}

// TestAFoldStopsAtRulesThatItDoesNotKnow: it would decide otherwise than the others.
func TestAFoldStopsAtRulesThatItDoesNotKnow(t *testing.T) {
	book := pricebook.Configured(plan.Published(10))
	book.Rules = rules2
	data, err := event.Encode(book)
	if err != nil {
		t.Fatal(err)
	}
	f := New()
	for sequence := range uint64(2) {
		effects, err := f.Apply(Message{Sequence: sequence + 1, Kind: Prices, Data: data})
		if !errors.Is(err, ErrRules) || len(effects.Answers) != 0 {
			t.Fatalf("folded with %v", err)
		}
	}
	if _, err := f.Image(); !errors.Is(err, ErrRules) {
		t.Fatalf("its snapshot: %v", err)
	}
	next := New()
	if err := next.Know(rules2); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Apply(Message{Sequence: 1, Kind: Prices, Data: data}); err != nil || next.Rules() != rules2 {
		t.Fatalf("the next version: rules %d, %v", next.Rules(), err)
	}
	if err := next.Know(NewestRules); !errors.Is(err, ErrRules) {
		t.Fatalf("the present version takes its state: %v", err)
	}
}

// TestASnapshotUnderNewerRulesIsFoldedByThoseWhoKnowThem, and by nobody else.
func TestASnapshotUnderNewerRulesIsFoldedByThoseWhoKnowThem(t *testing.T) {
	h := successor(t)
	h.account(alice, plan.Pro)
	older := restored(t, h.fold) // from a snapshot under the previous rules
	h.rules = rules2
	h.prices(plan.Published(20))
	book := h.messages[len(h.messages)-1]
	if _, err := older.Apply(book); err != nil || stateHash(t, older) != stateHash(t, h.fold) {
		t.Fatalf("the next version goes on from a snapshot of this one: %v", err)
	}
	h.want(h.admission(alice, plan.PastesGet), admitted)
	next := h.messages[len(h.messages)-1]
	present := restored(t, older)
	present.newest = NewestRules
	if _, err := present.Apply(next); !errors.Is(err, ErrRules) {
		t.Fatalf("this version folds on from a snapshot of the next one: %v", err)
	}
	successor := restored(t, older)
	if _, err := successor.Apply(next); err != nil || stateHash(t, successor) != stateHash(t, h.fold) {
		t.Fatalf("the next version goes on from a snapshot of its own: %v", err)
	}
	h.sound()
}

// TestASnapshotWithoutRulesIsDamaged: every one names the rules that decide the next message.
func TestASnapshotWithoutRulesIsDamaged(t *testing.T) {
	image, err := New().Image()
	if err != nil {
		t.Fatal(err)
	}
	s := &event.BillingState{}
	if err := event.Decode(image.Encode(), s); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(s); err != nil {
		t.Fatal(err)
	}
	s.Rules = 0
	if _, err := Restore(s); !errors.Is(err, errSnapshot) {
		t.Fatalf("restored with %v", err)
	}
}

// TestNewRulesDecideARefusedCommandAgain: during a rollout a new edge sends commands unknown to the rules in force. Under the
// same id such a command is executed once the new rules are in force. Earlier commands stay executed.
func TestNewRulesDecideARefusedCommandAgain(t *testing.T) {
	h := successor(t)
	h.account(alice, plan.Max)
	keyed := func(c *event.Command, id byte) *event.Command {
		c.IdempotencyId = bytes.Repeat([]byte{id}, 16)
		return c
	}
	for id := range byte(2) { // this version ignores unknown actions
		h.refuses(keyed(&event.Command{Account: alice}, id), event.CommandStatus_COMMAND_INVALID)
	}
	h.does(keyed(suspend(alice), 2))
	h.rules = rules2
	h.prices(plan.Published(10))
	for n, want := range []bool{false, true} {
		o := h.does(keyed(setCap(alice, event.CapPeriod_CAP_DAY, 1), 1))
		if o.Replayed != want || o.Cap.GetCap().GetAmountMicros() != 1 {
			t.Errorf("time %d: %v", n+1, o)
		}
	}
	if o := h.does(keyed(suspend(alice), 2)); !o.Replayed {
		t.Errorf("it is carried out twice: %v", o)
	}
	if n := h.fold.kept.queue.len(); n != 2 || len(h.fold.kept.byID) != 2 {
		t.Errorf("%d and %d outcomes are kept", n, len(h.fold.kept.byID))
	}
	h.sound()
}

// TestOldPricesDoNotComeBack: after the first one, a book without the agreement of the live instances has no effect.
func TestOldPricesDoNotComeBack(t *testing.T) {
	h := newHistory(t, nil)
	h.know(rules2)
	publish := func(limit int64, rules uint32, agreed bool) int64 {
		b := plan.Published(10)
		b.Plans[plan.Pro].Terms[plan.FilesUpload].Limit = limit
		e := pricebook.Configured(b)
		e.StampMs, e.Rules, e.Agreed = h.now, rules, agreed
		h.append(Prices, e)
		return h.fold.prices.current.Plans[plan.Pro].Terms[plan.FilesUpload].Limit
	}
	for i, c := range []struct {
		limit  int64
		rules  uint32
		agreed bool
		want   int64
	}{
		{1, 0, false, 1}, {2, 0, false, 1}, {2, NewestRules, true, 2}, {3, rules2, true, 3}, {2, NewestRules, false, 3}, {2, rules2, false, 3}, {4, 0, true, 4},
	} {
		if got := publish(c.limit, c.rules, c.agreed); got != c.want {
			t.Errorf("book %d: limit %d, want %d", i, got, c.want)
		}
	}
	if h.fold.Rules() != rules2 {
		t.Errorf("rules %d", h.fold.Rules())
	}
	h.sound()
}

// TestAnEarlierPriceBookDoesNotComeBack: a user who may read the last price book from a server that is behind can have the
// response stored as if it were published again. Offsets of development clocks do not count.
func TestAnEarlierPriceBookDoesNotComeBack(t *testing.T) {
	h := newHistory(t, nil)
	publish := func(limit, stamp, offset int64) int64 {
		b := plan.Published(10)
		b.Plans[plan.Pro].Terms[plan.FilesUpload].Limit = limit
		e := pricebook.Configured(b)
		e.StampMs, e.OffsetMs, e.Rules, e.Agreed = stamp+offset, offset, Rules1, true
		h.append(Prices, e)
		return h.fold.prices.current.Plans[plan.Pro].Terms[plan.FilesUpload].Limit
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
