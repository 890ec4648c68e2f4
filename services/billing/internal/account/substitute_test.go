package account

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// TestASubstituteCountsFromItsTimeOn: requests before it, and the months before, stay; books that the journal brings later don't count.
func TestASubstituteCountsFromItsTimeOn(t *testing.T) {
	other := plan.Published(10)
	other.Plans[plan.Pro].Terms[plan.FilesUpload] = plan.Term{Limit: 1, Overage: true, Price: 7}
	later := plan.Published(10)
	later.Plans[plan.Pro].Terms[plan.FilesUpload] = plan.Term{Limit: 2, Overage: true, Price: 9}
	const from = int64(5 * 60_000)
	substitute, err := pricebook.Applied(other, 1)
	if err != nil {
		t.Fatal(err)
	}
	// uses is what the account has used and paid after two requests before the time and two after it.
	uses := func(substituted bool) (used, spent uint64) {
		h := newHistory(t, nil)
		start := h.now
		if substituted {
			h.fold.Substitute(substitute, start+from, nil)
		}
		h.prices(plan.Published(10))
		h.account(alice, plan.Pro)
		h.grant(alice, credit, 0)
		h.each(alice, plan.FilesUpload, 2)
		h.wait(time.Duration(from) * time.Millisecond)
		h.apply(applied(t, later, h.now+time.Minute.Milliseconds()))
		h.each(alice, plan.FilesUpload, 1)
		h.wait(2 * time.Minute)
		h.each(alice, plan.FilesUpload, 1)
		s, _ := h.fold.StatementAt(event.AccountID(alice), monthOf(h.now).period(), h.now)
		for _, u := range s.Usage {
			if plan.QuotaKey(u.QuotaKey) == plan.FilesUpload {
				used = u.Used
			}
		}
		return used, s.SpentMicros
	}
	if used, spent := uses(true); used != 4 || spent != 14 {
		t.Errorf("with the substitute %d requests, for %d", used, spent)
	}
	if used, spent := uses(false); used != 4 || spent != 9 {
		t.Errorf("without it %d requests, for %d", used, spent)
	}
}

// TestASubstituteIsNotWithdrawn: the journal may have applied and withdrawn the same book for the same time.
func TestASubstituteIsNotWithdrawn(t *testing.T) {
	other := plan.Published(10)
	other.Plans[plan.Pro].Terms[plan.FilesUpload] = plan.Term{Limit: 1, Overage: true, Price: 7}
	h := newHistory(t, nil)
	from := h.now + 5*60_000
	book, err := pricebook.Applied(other, from)
	if err != nil {
		t.Fatal(err)
	}
	substitute, err := pricebook.Applied(other, from)
	if err != nil {
		t.Fatal(err)
	}
	h.fold.Substitute(substitute, from, nil)
	h.prices(plan.Published(10))
	h.account(alice, plan.Pro)
	h.apply(book)
	h.apply(&event.PriceBook{Id: book.Id, Withdrawn: true})
	h.wait(6 * time.Minute).tick()
	if got := h.fold.Prices().Id; got != substituteID {
		t.Errorf("the book in force is %q", got)
	}
}

// TestOnlyRefusedWritesCountAsServedWithoutASettlement: another write that no service settles is void, as ever.
func TestOnlyRefusedWritesCountAsServedWithoutASettlement(t *testing.T) {
	other := plan.Published(10)
	h := newHistory(t, nil)
	substitute, err := pricebook.Applied(other, h.now+1)
	if err != nil {
		t.Fatal(err)
	}
	refused, lost := h.admission(alice, plan.FilesUpload), h.admission(alice, plan.FilesUpload)
	refused.Write, lost.Write = true, true
	h.fold.Substitute(substitute, h.now+1, map[event.RequestID]struct{}{event.RequestID(refused.RequestId): {}})
	h.prices(plan.Published(10))
	h.account(alice, plan.Pro)
	h.want(refused, event.Decision_ADMITTED)
	h.want(lost, event.Decision_ADMITTED)
	h.wait(3 * time.Minute).tick()
	if used := h.fold.UsageAt(event.AccountID(alice), h.now).Usage[plan.FilesUpload-1].Used; used != 1 {
		t.Errorf("%d uploads are counted", used)
	}
}

// TestTimePassesWithoutAMessage, and the substitute comes into force.
func TestTimePassesWithoutAMessage(t *testing.T) {
	h := newHistory(t, nil)
	from := h.now + time.Hour.Milliseconds()
	substitute, err := pricebook.Applied(plan.Published(11), from)
	if err != nil {
		t.Fatal(err)
	}
	h.fold.Substitute(substitute, from, nil)
	h.prices(plan.Published(10))
	h.fold.Pass(from - 1)
	if got := h.fold.Prices().Id; got == substituteID {
		t.Error("the substitute is in force before its time")
	}
	h.fold.Pass(from)
	if got := h.fold.Prices().Id; got != substituteID {
		t.Errorf("the book in force is %q", got)
	}
}

func TestMonthsHaveBounds(t *testing.T) {
	start, end, ok := Month("2026-11")
	if !ok || start != time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC).UnixMilli() || end != time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli() {
		t.Errorf("%d to %d, %v", start, end, ok)
	}
	for _, s := range []string{"", "2026", "2026-13", "2026-1", "2026-11-01"} {
		if _, _, ok := Month(s); ok {
			t.Errorf("%q is a month", s)
		}
	}
}
