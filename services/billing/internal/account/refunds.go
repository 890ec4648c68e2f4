package account

import (
	"bytes"
	"fmt"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// A correction names what it corrects: a request, a line of a statement, or a payment. It never changes a past decision: its amount
// enters the ledger at the time of the correction, and the month of the corrected requests shows how much of them was refunded.

// maxRefunds bounds the refunded requests of a month whose ids are kept.
const maxRefunds = 1000

// refund is a request that an admin has refunded.
type refund struct {
	request event.RequestID
	key     plan.QuotaKey
	amount  uint64
}

// refund executes a command that refunds requests, or takes a refund back.
func (f *Fold) refund(a *account, r *event.Refund, actor string, index int) event.CommandStatus {
	key, amount := plan.QuotaKey(r.GetQuotaKey()), r.GetAmountMicros()
	if f.rules < Rules4 || !f.counts(key) || amount == 0 || amount > maxBalance || amount < -maxBalance {
		return event.CommandStatus_COMMAND_INVALID
	}
	if len(r.RequestId) != 0 && len(r.RequestId) != 16 {
		return event.CommandStatus_COMMAND_INVALID
	}
	if r.Month != a.month && r.Month+1 != a.month {
		return event.CommandStatus_COMMAND_NOT_REFUNDABLE
	}
	e := &event.LedgerEntry{
		TimeMs: f.time, Type: event.LedgerType_LEDGER_REFUND, AmountMicros: amount, QuotaKey: uint32(key), RequestId: slices.Clone(r.RequestId),
		Reason: r.Reason, Actor: actor,
	}
	if len(r.RequestId) == 0 {
		e.Month = r.Month
	}
	if amount < 0 {
		return f.credits.takeRefundBack(a, r, uint64(-amount), e)
	}
	c := a.counted(r.Month)
	if len(r.RequestId) > 0 {
		switch {
		case c.refundOf(r.RequestId) >= 0:
			return event.CommandStatus_COMMAND_OVER_REFUNDED
		case f.holds.voidable(a, event.RequestID(r.RequestId)) || c.charges != nil && len(c.charges.refunds) >= maxRefunds:
			return event.CommandStatus_COMMAND_NOT_REFUNDABLE
		}
	}
	_, _, spent, _ := c.charged(key)
	if spent < c.refunded(key)+a.pending(key, r.Month)+uint64(amount) {
		return event.CommandStatus_COMMAND_OVER_REFUNDED
	}
	if !f.credits.give(a, amount, 0, index, e) {
		return event.CommandStatus_COMMAND_INVALID
	}
	// A refunded amount must not be returned a second time when another request is voided. The new terms begin with the previous message,
	// so that a plan change in the same message comes later.
	f.credits.newTerms(a, max(a.terms, f.sequence-1))
	of := c.charging()
	of.refunded[key] += uint64(amount)
	if len(r.RequestId) > 0 {
		of.refunds = append(of.refunds, refund{event.RequestID(r.RequestId), key, uint64(amount)})
	}
	return event.CommandStatus_COMMAND_OK
}

// takeRefundBack removes credits that a refund has given: all of a request's, or any part of what was refunded for a quota key and
// no single request.
func (c *credits) takeRefundBack(a *account, r *event.Refund, amount uint64, e *event.LedgerEntry) event.CommandStatus {
	of, key := a.counted(r.Month), plan.QuotaKey(r.QuotaKey)
	i, left := of.refundOf(r.RequestId), of.refunded(key)
	if len(r.RequestId) > 0 {
		if i < 0 || of.charges.refunds[i].amount != amount || of.charges.refunds[i].key != key {
			return event.CommandStatus_COMMAND_OVER_REFUNDED
		}
	} else if of.charges != nil {
		for _, single := range of.charges.refunds {
			if single.key == key {
				left -= min(left, single.amount)
			}
		}
	}
	switch {
	case left < amount:
		return event.CommandStatus_COMMAND_OVER_REFUNDED
	case a.available < num.Int64(amount):
		return event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS
	}
	c.remove(a, amount, e)
	take(c.base, "refunded credits", &of.charges.refunded[key], amount)
	if i >= 0 {
		of.charges.refunds = slices.Delete(of.charges.refunds, i, i+1)
	}
	return event.CommandStatus_COMMAND_OK
}

// refundOf is the position of a request's refund, or -1.
func (c *counters) refundOf(request []byte) int {
	if c.charges == nil || len(request) == 0 {
		return -1
	}
	return slices.IndexFunc(c.charges.refunds, func(r refund) bool { return bytes.Equal(r.request[:], request) })
}

// refunded is how much of the credits spent for a quota key was refunded.
func (c *counters) refunded(key plan.QuotaKey) uint64 {
	if c.charges == nil {
		return 0
	}
	return c.charges.refunded[key]
}

// voidable reports whether the settlement of the account's request may still refund it.
func (s *holds) voidable(a *account, request event.RequestID) bool {
	h := s.byRequest[request]
	return h != nil && h.principal == &a.principal && h.voidable()
}

func (h *hold) voidable() bool {
	return h.result == event.Result_RESULT_UNSPECIFIED || h.result == event.Result_SERVED && h.timedOut
}

// pending is what was charged to requests whose own settlement may still refund it.
func (a *account) pending(key plan.QuotaKey, month uint32) (sum uint64) {
	for _, list := range []*holdList{&a.open, &a.closed} {
		for h := list.head; h != nil; h = h.after() {
			if h.key == key && h.month == month && h.charge == event.ChargeSource_CHARGE_CREDITS && h.voidable() {
				sum += h.cost
			}
		}
	}
	return sum
}

// states returns the refunds of single requests.
func (of *charges) states() (list []*event.RefundState) {
	if of == nil {
		return nil
	}
	for _, r := range of.refunds {
		list = append(list, &event.RefundState{RequestId: slices.Clone(r.request[:]), QuotaKey: uint32(r.key), AmountMicros: r.amount})
	}
	return list
}

func (c *counters) restoreRefunds(s *event.MonthState) error {
	for _, r := range s.Refunds {
		if len(r.RequestId) != 16 {
			return fmt.Errorf("%w: refunded request %x", errSnapshot, r.RequestId)
		}
		of := c.charging()
		of.refunds = append(of.refunds, refund{event.RequestID(r.RequestId), plan.QuotaKey(r.QuotaKey), r.AmountMicros})
	}
	return nil
}
