package fold

import "quire.dev/pkg/event"

// Settlements appends the events that tell billing how a request ended: its admission is served or void, and the owner's
// storage has changed. A request that was not metered and changed no storage has none. The first one is written into the empty
// t.
func Settlements(list []*event.Settlement, t *event.Settlement, r *event.Request, o *event.Outcome, c Change, sequence uint64) []*event.Settlement {
	if r.Charge != nil {
		t.RequestId, t.Result, t.Account, t.QuotaKey = r.RequestId, event.Result_SERVED, r.Charge.Account, r.Charge.QuotaKey
		t.Anonymous, t.Sequence = r.Charge.Anonymous, sequence
		if !Served(o) {
			t.Result = event.Result_VOID
			t.Failed = failed(o)
		}
		list = append(list, t)
	}
	if c.Storage.DeltaBytes == 0 {
		return list
	}
	if r.Charge == nil || t.Anonymous || t.Account != c.Storage.Account {
		t = &event.Settlement{Account: c.Storage.Account, Sequence: sequence}
		list = append(list, t)
	}
	t.StorageDelta, t.StorageAtMs = c.Storage.DeltaBytes, c.Storage.AtMS
	return list
}

// Served reports whether the request is charged: it was carried out, and o is not a replay.
func Served(o *event.Outcome) bool { return o.Status == event.OutcomeStatus_OK && !o.Replayed }

// failed reports whether the request counts towards too_many_failures. A replayed success does not, nor does a missed deadline,
// which is not the caller's fault.
func failed(o *event.Outcome) bool {
	return o.Status != event.OutcomeStatus_OK && o.Status != event.OutcomeStatus_DEADLINE_EXCEEDED
}
