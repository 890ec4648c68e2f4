package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// How an admitted request ended: values of ExplainAnswer.settlement.
const (
	SettlementOpen            = "open"
	SettlementServed          = "served"
	SettlementVoid            = "void"
	SettlementServedUnsettled = "served_unsettled" // by a time-out
	SettlementWaived          = "waived"           // served after its hold was voided, or while its account was quarantined, and not charged
)

// againMillis is how long a refusal because of held quota may be retried. Edges give up after seconds.
const againMillis = 60 * 1000

// Trace records the decision about one request, and its settlement, while messages are folded.
type Trace struct {
	request   event.RequestID
	until     int64
	write     bool
	voidFinal bool // nobody can report later that it was served
	answer    *event.ExplainAnswer
}

// Watch makes the fold trace a request in the following messages. There is one trace at a time.
func (s *records) Watch(request event.RequestID) *Trace {
	s.trace = &Trace{request: request}
	return s.trace
}

// Answer is the record, without the stream's name. It is nil if the request was not seen.
func (t *Trace) Answer() *event.ExplainAnswer { return t.answer }

// Done reports whether the record is final.
func (t *Trace) Done(f *Fold) bool {
	if t.answer == nil {
		return false
	}
	switch t.answer.Settlement {
	case SettlementWaived:
		return true
	case SettlementServed: // a payment may still be refunded
		return t.answer.Charge != event.ChargeSource_CHARGE_CREDITS || !f.principals.mayReturn(t.answer.Account, t.request)
	case SettlementServedUnsettled: // a settlement may still come
		return f.holds.byRequest[t.request] == nil && !f.principals.mayReturn(t.answer.Account, t.request)
	case "":
		v := t.answer.Verdict
		return !v.GetHeld() && v.GetDecision() != event.Decision_IDEMPOTENCY_IN_FLIGHT || f.time > t.until
	case SettlementVoid:
		if t.voidFinal {
			return true
		}
		return f.time > t.until
	}
	return false
}

// mayReturn reports whether the void of another request may refund a served request.
func (s *principals) mayReturn(id uint64, request event.RequestID) bool {
	a := s.accounts[id]
	if a == nil {
		return false
	}
	for _, l := range a.paid {
		for i := range l.items {
			if l.items[i].request == request {
				return true
			}
		}
	}
	return false
}

// traced begins the record if the hold belongs to the watched request, and reports whether it does.
func (f *Fold) traced(h *hold, item *event.Admission) bool {
	t := f.records.trace
	if t == nil || t.request != h.request || t.answer.GetSettlement() != "" {
		return false // a request refused because of open holds is retried under the same id
	}
	e := &event.ExplainAnswer{
		RequestId: append([]byte(nil), item.RequestId...), Account: item.Account, QuotaKey: item.QuotaKey,
		TimeMs: f.time, Sequence: f.sequence, Index: h.index, Anonymous: item.Anonymous, Key: h.keyNumber,
	}
	e.UsedBefore, e.BookMs = f.principals.usedBy(item), f.prices.list[len(f.prices.list)-1].fromMillis
	if item.Anonymous {
		e.WindowMs = f.prices.current.AnonymousWindowMillis
	}
	t.answer, t.until, t.write = e, f.time+againMillis, item.Write
	return true
}

// usedBy is the counter that decides an admission. It changes nothing.
func (s *principals) usedBy(item *event.Admission) uint64 {
	if item.Anonymous {
		if n := s.networks[item.Account]; n != nil {
			return uint64(len(n.admitted))
		}
		return 0
	}
	if a := s.accounts[item.Account]; a != nil && a.month >= s.month.number {
		return a.current.used[item.QuotaKey]
	}
	return 0
}

// traceVerdict records the decision. h is nil for a refusal.
func (f *Fold) traceVerdict(h *hold, item *event.Admission, v *event.Verdict) {
	e := f.records.trace.answer
	e.Verdict = &event.Verdict{
		Decision: v.Decision, Charge: v.Charge, Remaining: v.Remaining, Limit: v.Limit, CostMicros: v.CostMicros,
		BalanceMicros: v.BalanceMicros, Tier: v.Tier, Plan: v.Plan, RetryAfterSeconds: v.RetryAfterSeconds, Final: v.Final,
		ResetSeconds: v.ResetSeconds, CurrentKeyVersion: v.CurrentKeyVersion, Held: v.Held,
		KeyLimit: v.KeyLimit, KeyCap: v.KeyCap, Cap: v.Cap,
	}
	e.UsedAfter = f.principals.usedBy(item)
	if a := f.principals.accounts[item.Account]; a != nil && !item.Anonymous {
		e.PriceMicros = num.Uint64(f.prices.current.Plans[a.tier].Terms[item.QuotaKey].Price)
	}
	if h != nil {
		e.Settlement = SettlementOpen
		f.records.trace.until = f.time + HoldMillis + MemoryMillis
		f.records.traceCharged(h, e.PriceMicros)
	}
}

// traceCharged records how the request was paid. Its payment may move later.
func (s *records) traceCharged(h *hold, price uint64) {
	if !s.watches(h.request) {
		return
	}
	e := s.trace.answer
	e.PriceMicros, e.Charge, e.CostMicros, e.Grants = price, h.charge, h.cost, nil
	for _, u := range h.use {
		e.Grants = append(e.Grants, &event.GrantUse{Grant: u.grant.id, AmountMicros: u.amount, Reason: u.grant.reason})
	}
}

// traceReturned records that the void of another request, or the end of a quarantine, refunded the price.
func (s *records) traceReturned(request event.RequestID) {
	if s.watches(request) {
		e := s.trace.answer
		e.Charge, e.CostMicros, e.Grants = event.ChargeSource_CHARGE_QUOTA, 0, nil
		e.ReturnedSequence = s.sequence
	}
}

func (s *records) watches(request event.RequestID) bool {
	return s.trace != nil && s.trace.request == request && s.trace.answer != nil
}

// traceSettled records how the request ended. A later settlement may change that.
func (s *records) traceSettled(request event.RequestID, settlement string) {
	if !s.watches(request) {
		return
	}
	e := s.trace.answer
	e.Settlement, e.SettlementSequence, e.SettledMs = settlement, s.sequence, s.time
	if settlement == SettlementVoid {
		e.Charge, e.CostMicros, e.Grants = event.ChargeSource_CHARGE_NONE, 0, nil
	}
}

// traceVoidedBy records whether a void is final: a document service's is, and an edge's about a read.
func (s *records) traceVoidedBy(item *event.Settlement) {
	if s.watches(event.RequestID(item.RequestId)) {
		s.trace.voidFinal = !s.trace.write || item.Sequence != 0
	}
}
