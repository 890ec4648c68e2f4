package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// RequestChange is a decision about a request of an account, or a later change of one. It influences no decision.
type RequestChange struct {
	Account    event.AccountID
	Request    event.RequestID
	TimeMillis int64 // of the decision; of a request charged late, of its settlement
	Decided    bool  // the fields of the decision are set, too
	Settled    bool  // Status is set
	Paid       bool  // Charge and CostMicros are set
	Late       bool  // the request was charged late, so TimeMillis is not of its decision

	Held       bool   // refused, but open holds may undo that
	QuotaKey   uint8  // plan.QuotaKey
	Decision   uint8  // event.Decision
	Charge     uint8  // event.ChargeSource
	Key        uint32 // number of the API key
	Remaining  int64  // as reported to the caller
	Status     string // as ExplainAnswer.settlement; empty: refused
	CostMicros uint64
}

// records show the decisions about requests. They influence no decision, and are not part of the state.
type records struct {
	*base
	trace     *Trace // nil: no request is watched
	recording bool
}

// Record adds the requests of accounts to the effects, from the next message on.
func (s *records) Record() { s.recording = true }

// decided records the decision about a request of an account. h is nil for a refusal.
func (s *records) decided(h *hold, item *event.Admission, number uint32, v *event.Verdict) {
	if v.Tier == 0 { // no such account, or no prices
		return
	}
	c := RequestChange{
		Account: event.AccountID(item.Account), Request: event.RequestID(item.RequestId), TimeMillis: s.time,
		Decided: true, Settled: true, Paid: true, Held: h == nil && v.Held,
		QuotaKey: num.Uint8(item.QuotaKey), Decision: num.Uint8(v.Decision), Charge: num.Uint8(v.Charge), Key: number,
		Remaining: v.Remaining, CostMicros: v.CostMicros,
	}
	if h != nil {
		c.Status = SettlementOpen
	}
	s.effects.Requests = append(s.effects.Requests, c)
}

// change adds a change of a hold's request to the effects.
func (s *records) change(h *hold, c RequestChange) {
	c.Late = h.index == chargedLate
	if !s.recording || h.principal.account == nil {
		return
	}
	c.Account, c.Request, c.TimeMillis = event.AccountID(h.principal.id), h.request, h.time
	s.effects.Requests = append(s.effects.Requests, c)
}

// ended records how a hold ended. A later settlement may change that.
func (s *records) ended(h *hold, settlement string) {
	s.traceSettled(h.request, settlement)
	s.change(h, RequestChange{
		Settled: true, Status: settlement,
		Paid: settlement == SettlementVoid, Charge: uint8(event.ChargeSource_CHARGE_NONE),
	})
}

// recordCharged records how a request charged late is paid.
func (s *records) recordCharged(h *hold) {
	s.change(h, RequestChange{Paid: true, Charge: num.Uint8(h.charge), CostMicros: h.cost})
}

// returned records that the void of another request, or the end of a quarantine, refunded the price. timeMillis and index are of
// its admission, or of its late charge.
func (s *records) returned(a *account, request event.RequestID, timeMillis int64, index uint32) {
	s.traceReturned(request)
	if !s.recording {
		return
	}
	s.effects.Requests = append(s.effects.Requests, RequestChange{
		Account: event.AccountID(a.id), Request: request, TimeMillis: timeMillis, Late: index == chargedLate,
		Paid: true, Charge: uint8(event.ChargeSource_CHARGE_QUOTA),
	})
}
