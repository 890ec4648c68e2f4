package account

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

func setTopUp(id, below, credits, month uint64) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_SetTopUp{SetTopUp: &event.SetTopUp{BelowMicros: below, CreditsMicros: credits, MonthMicros: month}}}
}

func topUpFailed(id, topUp uint64, reason string) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_TopUpFailed{TopUpFailed: &event.TopUpFailed{TopUp: topUp, Reason: reason}}}
}

func topUpPaid(id, topUp, credits uint64) *event.Command {
	c := paymentOf(id, fmt.Sprint("top-up ", topUp, " of ", credits), credits)
	c.GetPayment().TopUp = topUp
	return c
}

func feeOf(id uint64, payment string) *event.Command {
	return &event.Command{Account: id, Action: &event.Command_Payment{Payment: &event.Payment{
		Provider: "bank", Id: payment, Plan: "pro", AmountCents: 1_190, TaxCents: 190,
	}}}
}

const credit = 1_000_000

// topUps are the account's due top-ups as the query has them.
func (h *history) topUps() (list []string) {
	for _, t := range h.fold.TopUps(&event.TopUpsQuery{}).TopUps {
		list = append(list, fmt.Sprintf("%x %d %d", t.Account, t.Id, t.CreditsMicros/credit))
	}
	return list
}

func (h *history) wantTopUps(want ...string) {
	h.t.Helper()
	if got := h.topUps(); !slices.Equal(got, want) {
		h.t.Fatalf("due %q, want %q", got, want)
	}
}

func (h *history) topUp(id uint64) *event.TopUpState { return h.fold.principals.accounts[id].topUp }

// buyer is an account on Pro with 10 credits that buys 5 below 2, and 15 at most in a month.
func buyer(t *testing.T) *history {
	t.Helper()
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 10*credit, 0)
	h.wantStatus(setTopUp(alice, 2*credit, 5*credit, 15*credit), ok)
	return h
}

// TestARepeatThatNamesTheTopUpEndsIt: a webhook may have recorded the payment before, without knowing what it carries out.
func TestARepeatThatNamesTheTopUpEndsIt(t *testing.T) {
	h := buyer(t)
	h.wantStatus(grantOf(alice, -9*credit, 0), ok)
	h.wantTopUps("a11ce 1 5")
	webhook := topUpPaid(alice, 1, 5*credit)
	webhook.GetPayment().TopUp = 0
	h.wantStatus(webhook, ok)
	h.wantTopUps("a11ce 1 5")
	for _, other := range []uint64{1, 2} { // the first one counts
		again := topUpPaid(alice, 1, 5*credit)
		again.GetPayment().TopUp = other
		h.wantStatus(again, ok)
		h.wantTopUps()
	}
	if got := h.fold.principals.accounts[alice]; got.available != 6*credit || got.purchases.list[0].topUp != 1 || len(got.purchases.list) != 1 {
		t.Errorf("available %d, payments %+v", got.available, got.purchases.list[0])
	}
}

func TestATopUpIsDueOnceTheBalanceIsLow(t *testing.T) {
	h := buyer(t)
	h.wantStatus(grantOf(alice, -8*credit, 0), ok)
	h.wantTopUps() // exactly the threshold
	h.use(alice, plan.FilesUpload, 100)
	h.wantTopUps()
	a := h.admission(alice, plan.FilesUpload)
	h.want(a, admitted)
	h.wantTopUps("a11ce 1 5")
	h.voided(a) // what was decided stays
	h.wantTopUps("a11ce 1 5")
	h.wantStatus(grantOf(alice, -credit, 0), ok) // no second one
	h.wantTopUps("a11ce 1 5")
	h.wantStatus(topUpPaid(alice, 7, 1), ok) // another id
	h.wantTopUps("a11ce 1 5")
	h.wantStatus(topUpPaid(alice, 1, 5*credit), ok)
	h.wantTopUps()
	if s := h.topUp(alice); s.SpentMicros != 5*credit || s.Last != 1 || s.DueMicros != 0 {
		t.Errorf("%v", s)
	}
	h.wantStatus(topUpPaid(alice, 1, 5*credit), ok) // a repeat
	h.wantStatus(grantOf(alice, -6*credit, 0), ok)
	h.wantTopUps("a11ce 2 5")
	h.wantStatus(topUpPaid(alice, 2, 1), ok) // too little: the next one follows
	h.wantTopUps("a11ce 3 5")
}

func TestEveryFallOfTheBalanceCounts(t *testing.T) {
	falls := map[string]func(h *history){
		"expiry":   func(h *history) { h.wait(time.Hour).tick() },
		"reversal": func(h *history) { h.wantStatus(reversalOf(alice, "in_1", 4*credit, 1), ok) },
		"taken":    func(h *history) { h.wantStatus(grantOf(alice, -4*credit, 0), ok) },
		"rule":     func(h *history) { h.wantStatus(setTopUp(alice, 6*credit, 5*credit, 15*credit), ok) },
	}
	for name, fall := range falls {
		t.Run(name, func(t *testing.T) {
			h := historyOf(t)
			h.account(alice, plan.Pro)
			h.account(bob, plan.Pro)
			h.wantStatus(paymentOf(alice, "in_1", 4*credit), ok)
			h.grant(alice, 1*credit, h.now+3_600_000)
			h.wantStatus(setTopUp(alice, 5*credit, 5*credit, 15*credit), ok)
			h.wantTopUps()
			fall(h)
			h.wantTopUps("a11ce 1 5")
		})
	}
	h := historyOf(t) // what is owed counts
	h.account(alice, plan.Pro)
	h.wantStatus(setTopUp(alice, 0, credit, credit), ok)
	h.wantStatus(paymentOf(alice, "in_1", 4*credit), ok)
	h.wantStatus(grantOf(alice, -4*credit, 0), ok)
	h.wantTopUps()
	h.wantStatus(reversalOf(alice, "in_1", 1, 1), ok)
	h.wantTopUps("a11ce 1 1")
}

func TestTopUpsOfAMonthAreBounded(t *testing.T) {
	h := buyer(t)
	h.wantStatus(grantOf(alice, -10*credit, 0), ok)
	for i := range uint64(3) {
		h.wantTopUps(fmt.Sprintf("a11ce %d 5", i+1))
		h.wantStatus(topUpPaid(alice, i+1, 1), ok)
	}
	h.wantTopUps()
	h.wantStatus(setTopUp(alice, 2*credit, 5*credit, 20*credit-1), ok)
	h.wantTopUps()
	h.now = at("2026-10-31T23:59:59.999Z")
	h.tick()
	h.wantTopUps()
	if due := h.fold.NextDueMillis(); due > h.now+1 {
		t.Errorf("next due at %d, the month begins at %d", due, h.now+1)
	}
	h.now++
	h.tick() // no message of the account
	h.wantTopUps("a11ce 4 5")
	if p := h.fold.PlanAt(event.AccountID(alice), h.now); p.TopUp.SpentMicros != 5*credit || p.TopUp.Month != monthOf(h.now).number || p.Payments != 3 {
		t.Errorf("%v", p)
	}
	if p := h.fold.PlanAt(event.AccountID(alice), at("2026-12-01T00:00:00Z")); p.TopUp.SpentMicros != 0 {
		t.Errorf("in December: %v", p)
	}
}

func TestTwoFailuresTurnTopUpsOff(t *testing.T) {
	h := buyer(t)
	h.webhook(webhookOf(alice, 7, alert.Bit(event.AlertType_ALERT_TOP_UP_OFF), 0))
	h.webhook(webhookOf(alice, 8, toldQuota, 0))
	h.wantStatus(grantOf(alice, -9*credit, 0), ok)
	h.wantStatus(topUpFailed(alice, 2, "other"), ok) // not the due one
	h.wantStatus(topUpFailed(bob, 1, "other"), event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND)
	h.wantTopUps("a11ce 1 5")
	h.wantStatus(topUpFailed(alice, 1, strings.Repeat("x", maxPurchaseChars+1)), badCommand)
	h.wantStatus(topUpFailed(alice, 1, "card_declined"), ok)
	h.wantStatus(topUpFailed(alice, 1, "card_declined"), ok) // a repeat
	if s := h.topUp(alice); s.SpentMicros != 0 || s.Failures != 1 || s.Off || s.Reason != "card_declined" {
		t.Errorf("%v", s)
	}
	h.wait(time.Hour-time.Millisecond).wantStatus(grantOf(alice, -1, 0), ok)
	h.wantTopUps()
	h.wait(time.Millisecond).tick()
	h.wantTopUps("a11ce 2 5")
	h.wantStatus(topUpFailed(alice, 2, "expired_card"), ok)
	if s := h.topUp(alice); !s.Off || len(h.alerts) != 1 || h.alerts[0].Type != event.AlertType_ALERT_TOP_UP_OFF || h.alerts[0].Reason != "expired_card" || h.alerts[0].Mail || !slices.Equal(h.alerts[0].Webhooks, []uint64{7}) {
		t.Errorf("%v, alerts %v", s, h.alerts)
	}
	h.wait(70 * 24 * time.Hour).tick()
	h.wantTopUps()
	h.wantStatus(setTopUp(alice, 2*credit, 5*credit, 15*credit), ok)
	h.wantTopUps("a11ce 3 5")
	if s := h.topUp(alice); s.Off || s.Failures != 0 || s.Reason != "" {
		t.Errorf("set again: %v", s)
	}
	h.wantStatus(topUpFailed(alice, 3, "expired_card"), ok)
	h.wantStatus(paymentOf(alice, "in_1", 1), ok)
	h.wait(time.Hour).tick()
	h.wantStatus(topUpFailed(alice, 4, "expired_card"), ok)
	if last := h.alerts[len(h.alerts)-1]; last.Type != event.AlertType_ALERT_TOP_UP_OFF || !last.Mail {
		t.Errorf("after a payment: %v", last)
	}
}

func TestASuccessEndsTheFailures(t *testing.T) {
	h := buyer(t)
	h.wantStatus(grantOf(alice, -9*credit, 0), ok)
	for n := uint64(1); n < 6; n += 2 {
		h.wantStatus(topUpFailed(alice, n, "busy"), ok)
		h.wait(time.Hour).tick()
		h.wantStatus(topUpPaid(alice, n+1, 1), ok)
		h.wantTopUps(fmt.Sprintf("a11ce %d 5", n+2)) // at once after a success
		if s := h.topUp(alice); s.Failures != 0 || s.Off || s.Reason != "" {
			t.Fatalf("%v", s)
		}
		h.wantStatus(setTopUp(alice, 2*credit, 5*credit, 100*credit), ok)
	}
}

func TestTopUpsTurnedOff(t *testing.T) {
	h := buyer(t)
	h.wantStatus(grantOf(alice, -9*credit, 0), ok)
	h.wantTopUps("a11ce 1 5")
	h.wantStatus(setTopUp(alice, 1*credit, 3*credit, 9*credit), ok) // the due one stays as it is
	h.wantTopUps("a11ce 1 5")
	h.wantStatus(setTopUp(alice, 0, 0, 0), ok)
	h.wantTopUps()
	h.wantStatus(topUpPaid(alice, 1, 5*credit), ok) // it was charged
	if h.balance(alice) != 6*credit {
		t.Errorf("balance %d", h.balance(alice))
	}
	h.wantStatus(grantOf(alice, -6*credit, 0), ok)
	h.wantTopUps()
	h.wantStatus(setTopUp(alice, 2*credit, 5*credit, 9*credit), ok) // the month counts the one that was charged
	h.wantTopUps()
	h.wantStatus(setTopUp(alice, 2*credit, 5*credit, 10*credit), ok)
	h.wait(time.Hour - time.Millisecond).tick() // the payment of the one that was dropped may still come
	h.wantTopUps()
	h.wait(time.Millisecond).tick()
	h.wantTopUps("a11ce 2 5")
	for _, c := range []*event.Command{
		setTopUp(alice, 1, 0, 0), setTopUp(alice, 0, 0, 1), setTopUp(alice, 1, credit-1, credit), setTopUp(alice, 1, 2*credit, 2*credit-1),
		setTopUp(alice, maxBalance+1, credit, credit), setTopUp(alice, 1, credit, maxBalance+1),
	} {
		h.wantStatus(c, badCommand)
	}
	h.wantStatus(setTopUp(alice, maxBalance, credit, maxBalance), ok)
}

// TestNobodyBarredIsCharged: no top-up becomes due, and a due one is not listed.
func TestNobodyBarredIsCharged(t *testing.T) {
	for name, bar := range map[string][2]*event.Command{
		"suspended": {suspend(alice), resume(alice)},
		"deleting":  {deleteAccount(alice), keepAccount(alice)},
	} {
		t.Run(name, func(t *testing.T) {
			h := buyer(t)
			h.wantStatus(bar[0], ok)
			h.wantStatus(grantOf(alice, -9*credit, 0), ok)
			h.wantTopUps()
			h.wantStatus(bar[1], ok)
			h.wantTopUps("a11ce 1 5")
			h.wantStatus(bar[0], ok)
			h.wantTopUps()
			h.wantStatus(bar[1], ok)
			h.wantTopUps("a11ce 1 5")
		})
	}
	h := buyer(t)
	h.wantStatus(grantOf(alice, -9*credit, 0), ok)
	h.wantStatus(deleteAccount(alice), ok)
	h.wait(DeletionMillis*time.Millisecond).wantStatus(eraseAccount(alice), ok)
	h.wait(70 * 24 * time.Hour).tick()
	if h.wantTopUps(); len(h.fold.topUps.accounts)+len(h.fold.topUps.pending) != 0 || h.fold.topUps.wake != never {
		t.Errorf("an erased account is watched: %v", h.fold.topUps)
	}
}

func TestAQuarantinedAccountIsNotCharged(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Pro)
	h.wantStatus(setTopUp(alice, 2*credit, 5*credit, 15*credit), ok)
	h.wantTopUps("a11ce 1 5")
	h.fold.quarantine(&h.fold.principals.accounts[alice].principal, "a test")
	h.wantStatus(topUpPaid(alice, 1, 1), ok)
	h.wantTopUps()
	if s := h.topUp(alice); s.Last != 1 {
		t.Errorf("%v", s)
	}
	h.wantStatus(resume(alice), ok)
	h.wantTopUps("a11ce 2 5")
}

// TestTopUpsWhenTheClockComesBack: the hour after a failure begins again at most.
func TestTopUpsWhenTheClockComesBack(t *testing.T) {
	h := buyer(t)
	h.wantStatus(grantOf(alice, -9*credit, 0), ok)
	h.wait(time.Hour).wantStatus(topUpFailed(alice, 1, "busy"), ok)
	h.wait(-time.Hour).tick()
	h.wait(59 * time.Minute).tick()
	h.wantTopUps()
	h.wait(time.Minute).tick()
	h.wantTopUps("a11ce 2 5")
}

// TestAMonthOfTopUpsThatHasBegunStaysBegun: its limit counts on when the clock comes back before it.
func TestAMonthOfTopUpsThatHasBegunStaysBegun(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.wantStatus(setTopUp(alice, 2*credit, credit, credit), ok)
	h.wantStatus(topUpPaid(alice, 1, 1), ok)
	h.now = at("2026-11-01T00:00:00Z")
	h.tick() // no message of the account
	h.wantTopUps("a11ce 2 1")
	h.now = at("2026-10-31T12:00:00Z")
	h.wantStatus(topUpPaid(alice, 2, 2), ok)
	h.wantTopUps()
	h.now = at("2026-11-15T00:00:00Z")
	h.tick()
	h.wantTopUps()
	h.now = at("2026-12-01T00:00:00Z")
	h.tick()
	h.wantTopUps("a11ce 3 1")
}

// TestTopUpsUnderAnyClock: the journal's clock goes ahead and comes back. No top-up waits for a message of its account, and a restored
// fold comes to the same.
func TestTopUpsUnderAnyClock(t *testing.T) {
	failed, back := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t, plan.Published(10))
		h.account(alice, plan.Pro)
		h.account(bob, plan.Pro)
		h.after = func() { noneIsLate(t, h.fold) }
		for range rapid.IntRange(10, 40).Draw(t, "steps") {
			passed := rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, time.Hour, 20 * 24 * time.Hour, -time.Hour, -20 * 24 * time.Hour}).Draw(t, "passed")
			if h.wait(passed); passed < 0 {
				back++
			}
			id := rapid.SampledFrom([]uint64{alice, bob}).Draw(t, "account")
			a := h.fold.principals.accounts[id]
			n := uint64(1)
			if a.topUp != nil {
				n = max(1, a.topUp.Last)
			}
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				h.command(setTopUp(id, 3*credit, credit, rapid.Uint64Range(1, 4).Draw(t, "month")*credit))
			case 1:
				h.command(topUpPaid(id, n, credit))
			case 2, 3:
				if h.command(topUpFailed(id, n, "busy")); a.topUp != nil && a.topUp.Failures > 0 {
					failed++
				}
			case 4:
				h.command(grantOf(id, rapid.SampledFrom([]int64{-credit, 2 * credit}).Draw(t, "grant"), 0))
			case 5:
				h.command([]*event.Command{suspend(id), resume(id)}[rapid.IntRange(0, 1).Draw(t, "bar")])
			case 6:
				h.command(grantOf(id, credit, h.fold.time+3_600_000))
			default:
				h.tick()
			}
			if rapid.IntRange(0, 4).Draw(t, "restored") == 0 {
				h.fold = restored(t, h.fold)
			}
		}
		h.sound()
	})
	if failed == 0 || back == 0 {
		t.Errorf("%d failures, %d times back", failed, back)
	}
}

// TestTopUpsAreListedOldestFirst: those of several accounts, from a snapshot too.
func TestTopUpsAreListedOldestFirst(t *testing.T) {
	h := historyOf(t)
	for _, id := range []uint64{bob, 7, alice} {
		h.account(id, plan.Pro)
		h.wait(time.Second).wantStatus(setTopUp(id, 1, credit, credit), ok)
	}
	h.wantTopUps("b0b 1 1", "7 1 1", "a11ce 1 1")
	h.fold = restored(t, h.fold)
	h.wantTopUps("b0b 1 1", "7 1 1", "a11ce 1 1")
	if got := h.fold.TopUps(&event.TopUpsQuery{Limit: 2}).TopUps; len(got) != 2 || got[0].Account != bob || got[0].TimeMs == 0 {
		t.Errorf("%v", got)
	}
}

func TestPaymentsOfPlansAreRecorded(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.wantStatus(feeOf(alice, "in_1"), ok)
	h.wantStatus(feeOf(alice, "in_1"), ok)
	h.wantStatus(paymentOf(alice, "in_1", 1), event.CommandStatus_COMMAND_PAYMENT_MISMATCH)
	other := feeOf(alice, "in_1")
	other.GetPayment().Plan = "max"
	h.wantStatus(other, event.CommandStatus_COMMAND_PAYMENT_MISMATCH)
	h.wantStatus(reversalOf(alice, "in_1", 1, 1), overRefunded)
	h.wantStatus(reversalOf(alice, "in_1", 0, 1), ok)
	for _, change := range []func(*event.Payment){
		func(p *event.Payment) { p.Plan = "" },
		func(p *event.Payment) { p.CreditsMicros = 1 },
		func(p *event.Payment) { p.TaxCents = p.AmountCents + 1 },
		func(p *event.Payment) { p.AmountCents = maxBalance + 1 },
		func(p *event.Payment) { p.Plan = strings.Repeat("x", maxPurchaseChars+1) },
	} {
		c := feeOf(alice, "in_2")
		change(c.GetPayment())
		h.wantStatus(c, badCommand)
	}
	if len(h.ledger) != 0 || h.balance(alice) != 0 {
		t.Errorf("the ledger has %v", h.ledger)
	}
	h.wantStatus(paymentOf(alice, "in_2", 5), ok)
	h.wait(time.Hour).wantStatus(topUpPaid(alice, 3, 5), ok)

	all := h.fold.Payments(event.AccountID(alice), &event.PaymentsQuery{})
	if len(all.Payments) != 3 || all.More || all.Payments[0].TopUp != 3 || all.Payments[0].Number != 3 || all.Payments[0].TimeMs != h.now {
		t.Fatalf("%v", all)
	}
	if fee := all.Payments[2]; fee.Number != 1 || fee.Plan != "pro" || fee.AmountCents != 1_190 || fee.TaxCents != 190 || fee.CreditsMicros != 0 {
		t.Errorf("%v", fee)
	}
	page := h.fold.Payments(event.AccountID(alice), &event.PaymentsQuery{Limit: 2})
	rest := h.fold.Payments(event.AccountID(alice), &event.PaymentsQuery{Limit: 2, Before: 2})
	if len(page.Payments) != 2 || !page.More || len(rest.Payments) != 1 || rest.More || rest.Payments[0].Id != "in_1" {
		t.Errorf("%v, then %v", page, rest)
	}
	one := h.fold.Payments(event.AccountID(alice), &event.PaymentsQuery{Provider: "bank", Id: "in_2"})
	none := h.fold.Payments(event.AccountID(alice), &event.PaymentsQuery{Provider: "other", Id: "in_2"})
	if len(one.Payments) != 1 || one.Payments[0].Number != 2 || len(none.Payments) != 0 || h.fold.Payments(9, &event.PaymentsQuery{}) != nil {
		t.Errorf("%v, %v", one, none)
	}
}
