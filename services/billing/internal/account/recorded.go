package account

import (
	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/recent"
)

// records show the decisions about requests. They influence no decision, and are not part of the state.
type records struct {
	*base
	trace  *Trace      // nil: no request is watched
	recent *recent.Log // nil: no recording
}

// Record makes the fold record the requests of accounts from the next message on. The records influence no decision and are not
// part of the state.
func (f *Fold) Record(log *recent.Log) { f.records.recent = log }

// record records the decision about a request of an account. h is nil for a refusal.
func (f *Fold) record(h *hold, item *event.Admission, number uint32, v *event.Verdict) {
	if v.Tier == 0 { // no such account, or no prices
		return
	}
	r := recent.Record{
		Request: event.RequestID(item.RequestId), TimeMillis: f.time, CostMicros: v.CostMicros, Remaining: v.Remaining,
		QuotaKey: uint8(item.QuotaKey), Decision: uint8(v.Decision), Charge: uint8(v.Charge), Status: recent.Open, Key: number,
	}
	switch {
	case h != nil:
		h.recent = f.records.recent.Add(item.Account, r)
		return
	case v.Decision == event.Decision_IDEMPOTENCY_IN_FLIGHT && f.holds.byRequest[r.Request] != nil:
		return // a repeat
	case v.Held:
		r.Status = recent.Held
	default:
		r.Status = recent.Refused
	}
	f.records.recent.Add(item.Account, r)
}

// recorded returns the record of a request, for changes, or nil.
func (s *records) recorded(ref recent.Ref, account uint64, request event.RequestID) *recent.Record {
	if s.recent == nil {
		return nil
	}
	return s.recent.Edit(ref, account, request)
}

// ended records how a hold ended. A later settlement may change that.
func (s *records) ended(h *hold, settlement string) {
	s.traceSettled(h.request, settlement)
	if h.principal.account == nil {
		return
	}
	r := s.recorded(h.recent, h.principal.id, h.request)
	if r == nil {
		return
	}
	switch settlement {
	case SettlementServed:
		r.Status = recent.Served
	case SettlementServedUnsettled:
		r.Status = recent.ServedUnsettled
	case SettlementWaived:
		r.Status = recent.Waived
	case SettlementVoid:
		r.Status, r.Charge, r.CostMicros = recent.Void, uint8(event.ChargeSource_CHARGE_NONE), 0
	}
}

// recordCharged records how a request charged late is paid.
func (s *records) recordCharged(h *hold) {
	if r := s.recorded(h.recent, h.principal.id, h.request); r != nil {
		r.Charge, r.CostMicros = uint8(h.charge), h.cost
	}
}

// returned records that the void of another request refunded the price.
func (s *records) returned(a *account, ref recent.Ref, request event.RequestID) {
	s.traceReturned(request)
	if r := s.recorded(ref, a.id, request); r != nil {
		r.Charge, r.CostMicros = uint8(event.ChargeSource_CHARGE_QUOTA), 0
	}
}

// Status is a record's status as in ExplainAnswer.settlement, empty for a refusal.
func Status(s recent.Status) string {
	switch s {
	case recent.Open:
		return SettlementOpen
	case recent.Served:
		return SettlementServed
	case recent.Void:
		return SettlementVoid
	case recent.ServedUnsettled:
		return SettlementServedUnsettled
	case recent.Waived:
		return SettlementWaived
	}
	return ""
}
