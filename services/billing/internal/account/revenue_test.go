package account

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// paidOf is a payment with an amount, of credits, or of a plan's fee.
func paidOf(id uint64, payment string, credits uint64, fee string, cents, tax uint64) *event.Command {
	c := paymentOf(id, payment, credits)
	p := c.GetPayment()
	p.Plan, p.AmountCents, p.TaxCents = fee, cents, tax
	return c
}

func withCents(c *event.Command, cents uint64) *event.Command {
	c.GetReverse().ReversedCents = cents
	return c
}

// TestRevenueAddsUpPayments by month, with what was given back, what can be spent, and what could not be charged.
func TestRevenueAddsUpPayments(t *testing.T) {
	h := buyer(t)
	h.account(bob, plan.Pro)
	h.now = at("2026-10-31T23:59:59.999Z")
	h.wantStatus(paidOf(bob, "in_1", 10_000, "", 1_190, 190), ok)
	h.now = at("2026-11-01T00:00:00Z")
	h.wantStatus(paidOf(bob, "in_2", 3_000, "", 301, 0), ok)
	h.wantStatus(paidOf(bob, "in_3", 0, "pro", 900, 0), ok)
	h.use(bob, plan.FilesUpload, 100)
	h.want(h.admission(bob, plan.FilesUpload), admitted)
	h.wantStatus(reversalOf(bob, "in_2", 1_000, 1), ok)                    // a third: 100.33 cents
	h.wantStatus(withCents(reversalOf(bob, "in_1", 10_000, 1), 1_190), ok) // all, 3,000 of which are spent
	h.wantStatus(withCents(reversalOf(bob, "in_3", 0, 1), 900), ok)        // a fee
	h.wantStatus(withCents(reversalOf(bob, "in_3", 0, 2), 901), overRefunded)
	h.wantStatus(withCents(reversalOf(bob, "in_3", 1, 2), 900), overRefunded)
	h.wantStatus(withCents(reversalOf(bob, "in_3", 0, 0), 0), ok) // older
	h.wantStatus(subscribe(bob, sub(1, plan.Pro, 1)), ok)
	pastDue := sub(1, plan.Pro, 2)
	pastDue.PastDue = true
	h.wantStatus(subscribe(bob, pastDue), ok)
	h.wantStatus(grantOf(alice, -9*credit, 0), ok)
	h.wantStatus(topUpFailed(alice, 1, "card_declined"), ok)
	balance := h.balance(bob)
	if balance >= 0 {
		t.Fatalf("the balance is %d", balance)
	}
	got := h.fold.Revenue(&event.RevenueQuery{FromMs: at("2026-10-01T00:00:00Z"), Failures: 5})
	want := &event.RevenueAnswer{
		Months: []*event.MonthRevenue{
			{Period: "2026-10", Payments: 1, AmountCents: 1_190, TaxCents: 190, ReversedCents: 1_190, CreditsMicros: 10_000},
			{Period: "2026-11", Payments: 2, AmountCents: 1_201, ReversedCents: 1_000, CreditsMicros: 3_000},
		},
		OutstandingMicros: uint64(h.balance(alice)), OutstandingAccounts: 1, OwedMicros: uint64(-balance), OwingAccounts: 1,
		Subscriptions: 1, PastDue: 1, FailingTopUps: 1,
		Failures: []*event.FailedCharge{{Account: alice, Reason: "card_declined"}, {Account: bob, Tier: uint32(plan.Pro)}},
	}
	if alice > bob {
		want.Failures[0], want.Failures[1] = want.Failures[1], want.Failures[0]
	}
	if !proto.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	got = h.fold.Revenue(&event.RevenueQuery{FromMs: at("2026-11-01T00:00:00Z"), Failures: 1})
	if len(got.Months) != 1 || len(got.Failures) != 1 {
		t.Errorf("from November, one failure: %v", got)
	}
	h.wantStatus(deleteAccount(alice), ok)
	h.wait(40 * 24 * time.Hour)
	h.wantStatus(&event.Command{Account: alice, Action: &event.Command_EraseAccount{EraseAccount: &event.EraseAccount{}}}, ok)
	if got := h.fold.Revenue(&event.RevenueQuery{}); got.OutstandingAccounts != 0 || got.FailingTopUps != 0 {
		t.Errorf("after the erasure: %v", got)
	}
}

// TestFailuresOfARevenueReportAreBounded, whatever is asked for; the sums have all.
func TestFailuresOfARevenueReportAreBounded(t *testing.T) {
	h := historyOf(t)
	for id := range uint64(maxFailedCharges + 1) {
		h.account(id+1, plan.Pro)
		s := sub(1, plan.Pro, 1)
		s.PastDue = true
		h.wantStatus(subscribe(id+1, s), ok)
	}
	for asked, want := range map[uint32]int{0: 0, 1: 1, maxFailedCharges: maxFailedCharges, maxFailedCharges + 1: maxFailedCharges} {
		got := h.fold.Revenue(&event.RevenueQuery{Failures: asked})
		if len(got.Failures) != want || got.PastDue != maxFailedCharges+1 {
			t.Errorf("asked for %d: %d of %d", asked, len(got.Failures), got.PastDue)
		}
	}
}
