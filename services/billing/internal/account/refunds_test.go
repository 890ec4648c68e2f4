package account

import (
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// spender is an account on Pro that has paid 5,000 for each of n uploads of November.
func spender(t *testing.T, n int) (*history, []*event.Admission) {
	t.Helper()
	h := historyOf(t)
	h.now = at("2026-11-20T12:00:00Z")
	h.account(alice, plan.Pro)
	h.grant(alice, 5_000*int64(n), 0)
	h.use(alice, plan.FilesUpload, 100)
	var paid []*event.Admission
	for range n {
		a := h.admission(alice, plan.FilesUpload)
		if v := h.want(a, admitted); v.CostMicros != 5_000 {
			t.Fatalf("%v", v)
		}
		h.served(a)
		paid = append(paid, a)
	}
	return h, paid
}

func ofRequest(a *event.Admission, month uint32, amount int64) *event.Command {
	return refundOf(a.Account, &event.Refund{RequestId: a.RequestId, Month: month, QuotaKey: a.QuotaKey, AmountMicros: amount})
}

func ofLine(month uint32, amount int64) *event.Command {
	return refundOf(alice, &event.Refund{Month: month, QuotaKey: uint32(plan.FilesUpload), AmountMicros: amount})
}

func (h *history) wantStatus(c *event.Command, want event.CommandStatus) {
	h.t.Helper()
	if o := h.command(c); o.Status != want {
		h.t.Fatalf("%v: %v, want %v", c, o, want)
	}
}

const (
	overRefunded  = event.CommandStatus_COMMAND_OVER_REFUNDED
	notRefundable = event.CommandStatus_COMMAND_NOT_REFUNDABLE
	badCommand    = event.CommandStatus_COMMAND_INVALID
)

func TestARequestIsRefundedOnce(t *testing.T) {
	h, paid := spender(t, 2)
	month := monthOf(h.now).number
	h.wantStatus(ofRequest(paid[0], month, 5_000), ok)
	h.wantStatus(ofRequest(paid[0], month, 5_000), overRefunded)
	e := h.ledger[len(h.ledger)-1]
	if e.Type != event.LedgerType_LEDGER_REFUND || e.AmountMicros != 5_000 || string(e.RequestId) != string(paid[0].RequestId) || e.Actor != "root" || e.Reason != "sorry" {
		t.Errorf("the ledger has %v", e)
	}
	u := h.usedBy(alice, plan.FilesUpload)
	if h.balance(alice) != 5_000 || u.Used != 102 || u.Overage != 2 || u.SpentMicros != 10_000 || u.RefundedMicros != 5_000 {
		t.Errorf("balance %d, %v", h.balance(alice), u)
	}
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	if s.Usage[plan.FilesUpload-1].RefundedMicros != 5_000 || s.Credits.AdjustedMicros != 5_000 || s.Credits.ClosingMicros != 5_000 {
		t.Errorf("the statement has %v, %v", s.Usage[plan.FilesUpload-1], s.Credits)
	}
	h.wantStatus(ofRequest(paid[0], month, -4_999), overRefunded) // all or nothing
	h.wantStatus(ofLine(month, -1), overRefunded)                 // it belongs to the request
	h.wantStatus(ofRequest(paid[0], month, -5_000), ok)
	h.wantStatus(ofRequest(paid[0], month, -5_000), overRefunded)
	if u := h.usedBy(alice, plan.FilesUpload); h.balance(alice) != 0 || u.RefundedMicros != 0 {
		t.Errorf("taken back: balance %d, %v", h.balance(alice), u)
	}
}

func TestALineIsRefundedUpToWhatWasSpent(t *testing.T) {
	h, paid := spender(t, 2)
	month := monthOf(h.now).number
	h.wantStatus(ofLine(month, 10_001), overRefunded)
	h.wantStatus(ofLine(month, 7_500), ok)
	if e := h.ledger[len(h.ledger)-1]; e.Month != month || e.QuotaKey != uint32(plan.FilesUpload) || len(e.RequestId) != 0 {
		t.Errorf("the ledger has %v", e)
	}
	h.wantStatus(ofRequest(paid[1], month, 5_000), overRefunded)
	h.wantStatus(ofLine(month, 2_501), overRefunded)
	h.wantStatus(ofLine(month, 2_500), ok)
	h.wantStatus(ofLine(month, -10_001), overRefunded)
	h.wantStatus(grantOf(alice, -9_000, 0), ok)
	h.wantStatus(ofLine(month, -1_001), event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS)
	h.wantStatus(ofLine(month, -1_000), ok)
	for _, c := range []*event.Command{ofLine(month, 0), refundOf(alice, &event.Refund{Month: month, QuotaKey: 99, AmountMicros: 1}), refundOf(alice, &event.Refund{Month: month, QuotaKey: 1, AmountMicros: 1, RequestId: []byte("short")}), ofLine(month, maxBalance+1)} {
		h.wantStatus(c, badCommand)
	}
}

func TestLastMonthsRequestsAreRefundable(t *testing.T) {
	h, paid := spender(t, 2)
	month := monthOf(h.now).number
	h.now = at("2026-12-31T23:59:59.999Z")
	h.wantStatus(ofRequest(paid[0], month, 5_000), ok)
	november, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	december, _ := h.fold.StatementAt(event.AccountID(alice), "2026-12", h.now)
	if november.Usage[plan.FilesUpload-1].RefundedMicros != 5_000 || november.Credits.ClosingMicros != 0 || november.Credits.AdjustedMicros != 0 {
		t.Errorf("November has %v, %v", november.Usage[plan.FilesUpload-1], november.Credits)
	}
	if december.Credits.OpeningMicros != 0 || december.Credits.AdjustedMicros != 5_000 || december.Credits.ClosingMicros != 5_000 {
		t.Errorf("December has %v", december.Credits)
	}
	h.now++
	h.wantStatus(ofRequest(paid[1], month, 5_000), notRefundable)
	h.wantStatus(ofLine(month+3, 1), notRefundable) // the future
}

// TestNothingIsRefundedTwice: what a void may still refund is not refundable, and what was refunded no void refunds.
func TestNothingIsRefundedTwice(t *testing.T) {
	h := atTheEnd(t)
	month := monthOf(h.now).number
	failing := h.admission(alice, plan.FilesGet) // the last free one
	h.want(failing, admitted)
	open := h.admission(alice, plan.FilesGet)
	h.want(open, admitted)
	of := func(a *event.Admission) *event.Command { return ofRequest(a, month, 1_000) }
	h.wantStatus(of(open), notRefundable)
	h.wantStatus(refundOf(alice, &event.Refund{Month: month, QuotaKey: uint32(plan.FilesGet), AmountMicros: 1}), overRefunded)
	h.wait(HoldMillis * time.Millisecond).tick() // served by a time-out, which a settlement may correct
	h.wantStatus(of(open), notRefundable)
	h.served(open)
	h.wantStatus(of(open), ok)
	h.failed(failing)
	if u := h.usedBy(alice, plan.FilesGet); h.balance(alice) != 100_000 || u.SpentMicros != 1_000 || u.RefundedMicros != 1_000 {
		t.Errorf("balance %d, %v", h.balance(alice), u)
	}
}

func TestARefundAndATierInOneMessage(t *testing.T) {
	h, paid := spender(t, 2)
	month := monthOf(h.now).number
	open := h.admission(alice, plan.FilesUpload)
	h.grant(alice, 5_000, 0)
	h.want(open, admitted)
	for i, o := range h.commands(ofRequest(paid[0], month, 5_000), setTier(alice, plan.Max), ofRequest(paid[1], month, 5_000)) {
		if o.Status != ok {
			t.Fatalf("command %d: %v", i, o)
		}
	}
	h.voided(open)
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
	if len(s.Periods) != 2 || s.Periods[0].Lines[plan.FilesUpload-1].Used != 102 || s.Periods[0].Lines[plan.FilesUpload-1].Paid != 2 || s.Periods[1].Lines[plan.FilesUpload-1].Used != 0 {
		t.Errorf("periods %v", s.Periods)
	}
}

func TestRefundedRequestsAreBounded(t *testing.T) {
	h, paid := spender(t, maxRefunds+1)
	month := monthOf(h.now).number
	for i, a := range paid {
		want := ok
		if i == maxRefunds {
			want = notRefundable
		}
		h.wantStatus(ofRequest(a, month, 5_000), want)
	}
	h.wantStatus(ofLine(month, 5_000), ok)
}

func TestAPaymentAddsItsCreditsOnce(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.account(bob, plan.Pro)
	h.webhook(webhookOf(alice, 7, toldMoney, 0))
	h.webhook(webhookOf(alice, 8, toldQuota, 0))
	h.wantStatus(paymentOf(alice, "in_1", 7_000), ok)
	if a := h.alerts[0]; len(h.alerts) != 1 || a.Type != event.AlertType_ALERT_PAYMENT || !a.Mail || !slices.Equal(a.Webhooks, []uint64{7}) || a.Payment.Number != 1 {
		t.Errorf("%v", h.alerts)
	}
	h.wait(48 * time.Hour) // outcomes of commands are forgotten by now
	h.wantStatus(paymentOf(alice, "in_1", 7_000), ok)
	h.wantStatus(paymentOf(alice, "in_1", 7_001), event.CommandStatus_COMMAND_PAYMENT_MISMATCH)
	if len(h.alerts) != 1 {
		t.Errorf("a repeat notifies: %v", h.alerts)
	}
	h.wantStatus(paymentOf(bob, "in_1", 1), ok) // the caller knows whose it is
	h.wantStatus(paymentOf(alice, "in_2", 1_000), ok)
	if e := h.ledger[0]; h.balance(alice) != 8_000 || e.Type != event.LedgerType_LEDGER_PAYMENT || e.Payment != "in_1" || e.Actor != "bank" {
		t.Errorf("balance %d, %v", h.balance(alice), e)
	}
	for _, c := range []*event.Command{paymentOf(alice, "", 1), paymentOf(alice, "in_3", 0), paymentOf(alice, "in_3", maxBalance), paymentOf(alice, string(make([]byte, maxPurchaseChars+1)), 1)} {
		h.wantStatus(c, badCommand)
	}
	h.wantStatus(paymentOf(alice, string(make([]byte, maxPurchaseChars)), 1), ok)
}

// TestNoNumberOfGrantsRefusesAPayment: whoever has paid gets the credits. Other grants are refused from maxGrants on.
func TestNoNumberOfGrantsRefusesAPayment(t *testing.T) {
	for name, one := range map[string]struct {
		expires int64
		grants  int // after two payments and what a reversal gives back
	}{"all expire": {at("2027-01-01T00:00:00Z"), maxGrants + 1}, "none expires": {0, maxGrants}} {
		t.Run(name, func(t *testing.T) {
			h := historyOf(t)
			h.account(alice, plan.Pro)
			for range maxGrants {
				h.grant(alice, 10, one.expires)
			}
			h.wantStatus(grantOf(alice, 10, 0), badCommand)
			h.wantStatus(paymentOf(alice, "in_1", 7_000), ok)
			h.wantStatus(paymentOf(alice, "in_2", 1_000), ok)
			h.wantStatus(reversalOf(alice, "in_1", 7_000, 1), ok)
			h.wantStatus(reversalOf(alice, "in_1", 0, 2), ok)
			a := h.fold.principals.accounts[alice]
			if want := int64(10*maxGrants + 8_000); h.balance(alice) != want || a.settled != want || len(a.grants) > one.grants {
				t.Fatalf("balance %d, want %d, with %d grants", h.balance(alice), want, len(a.grants))
			}
			h.use(alice, plan.FilesUpload, 100)
			h.want(h.admission(alice, plan.FilesUpload), admitted)
			h.sound()
		})
	}
}

// TestAChargebackOfSpentCreditsIsOwed: only the reversal of a payment takes the balance below zero, and then nothing is sold.
func TestAChargebackOfSpentCreditsIsOwed(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.wantStatus(reversalOf(alice, "in_1", 1, 1), event.CommandStatus_COMMAND_PAYMENT_NOT_FOUND)
	h.wantStatus(paymentOf(alice, "in_1", 10_000), ok)
	h.use(alice, plan.FilesUpload, 100)
	a, open := h.admission(alice, plan.FilesUpload), h.admission(alice, plan.FilesUpload)
	h.want(a, admitted)
	h.served(a)
	h.want(open, admitted)
	h.wantStatus(reversalOf(alice, "in_1", 10_001, 1), overRefunded)
	h.wantStatus(reversalOf(alice, "in_1", 10_000, 5), ok)
	h.wantStatus(reversalOf(alice, "in_1", 0, 4), ok) // older than what is known
	if h.balance(alice) != -10_000 || h.ledgerSum(alice) != -5_000 {
		t.Fatalf("balance %d, ledger %d", h.balance(alice), h.ledgerSum(alice))
	}
	if v := h.want(h.admission(alice, plan.FilesUpload), exhausted); v.RetryAfterSeconds == 0 {
		t.Errorf("refused with %v", v)
	}
	h.want(h.admission(alice, plan.FilesGet), admitted) // free
	h.wantStatus(grantOf(alice, -1, 0), event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS)
	h.voided(open) // what comes back is owed
	if h.balance(alice) != -5_000 {
		t.Fatalf("after the void: %d", h.balance(alice))
	}
	h.grant(alice, 5_000, 0)
	h.want(h.admission(alice, plan.FilesUpload), exhausted)
	h.grant(alice, 4_999, 0)
	h.want(h.admission(alice, plan.FilesUpload), exhausted)
	h.grant(alice, 1, 0)
	h.want(h.admission(alice, plan.FilesUpload), admitted)
	h.wantStatus(reversalOf(alice, "in_1", 4_000, 6), ok) // most of the dispute is won
	if h.balance(alice) != 6_000 {
		t.Errorf("after the dispute: %d", h.balance(alice))
	}
}

func TestCorrectionsNeedRules4(t *testing.T) {
	h := newHistory(t, nil)
	h.rules = Rules3
	h.prices(plan.Published(10))
	h.account(alice, plan.Pro)
	h.wantStatus(paymentOf(alice, "in_1", 1), badCommand)
	h.wantStatus(reversalOf(alice, "in_1", 1, 1), badCommand)
	h.wantStatus(ofLine(monthOf(h.now).number, 1), badCommand)
	h.rules = Rules4
	h.prices(plan.Published(10))
	h.wantStatus(paymentOf(alice, "in_1", 1), ok)
	h.sound()
}
