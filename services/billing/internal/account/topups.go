package account

import (
	"cmp"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// A top-up buys credits with the saved payment method once few are left. The fold decides when one is due, at the end of the message
// after which all conditions hold, so that each is charged once. What the provider answers is an event.

const (
	topUpRetryMillis = 60 * 60 * 1000 // after a failure, before the next one
	maxTopUpFailures = 2              // in a row, which turn top-ups off
	minTopUp         = 1_000_000      // micro-credits: a credit
)

// Bounds of a TopUpsQuery's limit.
const (
	defaultTopUps = 50
	maxTopUps     = 1000
)

// topUps finds the accounts whose top-ups may become due. It follows from the accounts.
type topUps struct {
	*base
	alerts   *notifier
	accounts map[uint64]*account // with a rule
	pending  map[uint64]*account // with a top-up that is to be charged
	wake     int64               // next time at which one may become due although its account does not change
}

func newTopUps(b *base, alerts *notifier) topUps {
	return topUps{base: b, alerts: alerts, accounts: map[uint64]*account{}, pending: map[uint64]*account{}, wake: never}
}

// set executes a command that sets an account's rule.
func (u *topUps) set(a *account, r *event.SetTopUp) event.CommandStatus {
	if u.rules < Rules4 || !validTopUp(r) {
		return event.CommandStatus_COMMAND_INVALID
	}
	t := a.topUp
	if t == nil {
		t = &event.TopUpState{}
		a.topUp = t
		u.accounts[a.id] = a
		u.wake = min(u.wake, u.month.end)
		u.touch(&a.principal) // again, since it has a rule now
	}
	t.Rule = &event.SetTopUp{BelowMicros: r.GetBelowMicros(), CreditsMicros: r.GetCreditsMicros(), MonthMicros: r.GetMonthMicros()}
	if t.Failures > 0 {
		t.RetryMs = 0
	}
	t.Failures, t.Reason, t.Off = 0, "", false
	if t.Rule.CreditsMicros == 0 && t.DueMs != 0 {
		// The provider may have charged it already: it still counts in the month, and the next one waits, so that its payment can arrive.
		t.DueMs, t.DueMicros, t.RetryMs = 0, 0, u.time+topUpRetryMillis
		u.wake = min(u.wake, t.RetryMs)
	}
	return event.CommandStatus_COMMAND_OK
}

func validTopUp(r *event.SetTopUp) bool {
	if r.GetCreditsMicros() == 0 {
		return r.GetBelowMicros() == 0 && r.GetMonthMicros() == 0
	}
	return r.CreditsMicros >= minTopUp && r.CreditsMicros <= r.MonthMicros && r.MonthMicros <= maxBalance && r.BelowMicros <= maxBalance
}

// toppedUp ends a top-up that was charged. Any other id changes nothing.
func (a *account) toppedUp(id uint64) {
	if t := a.topUp; t != nil && t.DueMs != 0 && t.Last == id {
		t.DueMs, t.DueMicros, t.Failures, t.Reason = 0, 0, 0, ""
	}
}

// fail executes a command about a top-up that could not be charged.
func (u *topUps) fail(a *account, c *event.TopUpFailed) event.CommandStatus {
	if u.rules < Rules4 || len(c.GetReason()) > maxPurchaseChars {
		return event.CommandStatus_COMMAND_INVALID
	}
	t := a.topUp
	if t == nil || t.DueMs == 0 || t.Last != c.GetTopUp() {
		return event.CommandStatus_COMMAND_OK
	}
	take(u.base, "credits of top-ups", &t.SpentMicros, t.DueMicros)
	t.DueMs, t.DueMicros, t.Reason = 0, 0, c.Reason
	t.Failures++
	t.RetryMs = u.time + topUpRetryMillis
	u.wake = min(u.wake, t.RetryMs)
	if t.Failures >= maxTopUpFailures {
		t.Off = true
		u.alerts.notifyHolder(a, &event.Alert{
			Type: event.AlertType_ALERT_TOP_UP_OFF, Reason: c.Reason,
			Mail: len(a.purchases.list) > 0, // an account that never paid may have someone else's address
		})
	}
	return event.CommandStatus_COMMAND_OK
}

// decide decides after a message which top-ups are due: of accounts that it changed, and of all others when a month begins or the
// time after a failure has passed.
func (u *topUps) decide() {
	if len(u.watched) == 0 && u.time < u.wake {
		return
	}
	for _, a := range u.watched {
		u.decideFor(a)
	}
	if u.time >= u.wake {
		for _, a := range u.accounts { // the order has no effect
			u.decideFor(a)
		}
		u.schedule()
	}
	clear(u.watched)
	u.watched = u.watched[:0]
}

func (u *topUps) decideFor(a *account) {
	t := a.topUp
	if t == nil { // erased
		delete(u.accounts, a.id)
		delete(u.pending, a.id)
		return
	}
	month := max(a.monthOf(u.base).number, t.Month)
	spent := t.SpentMicros
	if month != t.Month {
		spent = 0
	}
	if a.topUpPossible() && u.time >= t.RetryMs && spent+t.Rule.CreditsMicros <= t.Rule.MonthMicros {
		u.touch(&a.principal)
		t.Last++
		t.DueMs, t.DueMicros = max(u.time, 1), t.Rule.CreditsMicros
		t.Month, t.SpentMicros = month, spent+t.DueMicros
	}
	if t.DueMs != 0 {
		u.pending[a.id] = a
	} else {
		delete(u.pending, a.id)
	}
}

// topUpPossible reports whether a top-up is due but for the time and the month's limit.
func (a *account) topUpPossible() bool {
	t := a.topUp
	return t.DueMs == 0 && !t.Off && t.Rule.CreditsMicros > 0 && !a.barred() && a.quarantined == 0 && a.available-a.owed < num.Int64(t.Rule.BelowMicros)
}

// due is when a top-up may become due although its account does not change; never if there is none.
func (u *topUps) due() int64 { return u.wake }

// schedule finds the next time at which a top-up may become due.
func (u *topUps) schedule() {
	u.wake = never
	for _, a := range u.accounts { // the order has no effect
		u.wake = min(u.wake, u.month.end)
		if a.topUp.RetryMs > u.time {
			u.wake = min(u.wake, a.topUp.RetryMs)
		}
	}
}

func (u *topUps) restore(a *account, t *event.TopUpState) {
	if t == nil {
		return
	}
	a.topUp = copyTopUp(t)
	u.accounts[a.id] = a
	if t.DueMs != 0 {
		u.pending[a.id] = a
	}
}

func copyTopUp(t *event.TopUpState) *event.TopUpState {
	if t == nil {
		return nil
	}
	return &event.TopUpState{
		Rule: &event.SetTopUp{BelowMicros: t.Rule.GetBelowMicros(), CreditsMicros: t.Rule.GetCreditsMicros(), MonthMicros: t.Rule.GetMonthMicros()},
		Last: t.Last, DueMs: t.DueMs, DueMicros: t.DueMicros, Month: t.Month, SpentMicros: t.SpentMicros, Failures: t.Failures, Reason: t.Reason,
		Off: t.Off, RetryMs: t.RetryMs,
	}
}

// TopUps lists the top-ups that are to be charged, oldest first. Accounts that may not send requests are not charged.
func (u *topUps) TopUps(q *event.TopUpsQuery) *event.TopUpsAnswer {
	answer := &event.TopUpsAnswer{}
	for id, a := range u.pending { // sorted below
		if t := a.topUp; !a.barred() && a.quarantined == 0 {
			answer.TopUps = append(answer.TopUps, &event.TopUp{Account: id, Id: t.Last, CreditsMicros: t.DueMicros, TimeMs: t.DueMs})
		}
	}
	slices.SortFunc(answer.TopUps, func(a, b *event.TopUp) int {
		return cmp.Or(cmp.Compare(a.TimeMs, b.TimeMs), cmp.Compare(a.Account, b.Account))
	})
	answer.TopUps = answer.TopUps[:min(len(answer.TopUps), pageLimit(q.GetLimit(), defaultTopUps, maxTopUps))]
	return answer
}
