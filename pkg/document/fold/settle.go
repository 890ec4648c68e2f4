package fold

import "quire.dev/pkg/event"

// Settlements are the events that tell billing how a request ended: its admission is served or void,
// and the owner's storage has changed. There are none for a request that was not metered and changed
// no storage.
func Settlements(r *event.Request, o *event.Outcome, c Change, sequence uint64) []*event.Settlement {
	var settled *event.Settlement
	var all []*event.Settlement
	if r.Charge != nil {
		settled = &event.Settlement{
			RequestId: r.RequestId, Result: event.Result_SERVED, Account: r.Charge.Account,
			QuotaKey: r.Charge.QuotaKey, Anonymous: r.Charge.Anonymous, Sequence: sequence,
		}
		if !Served(o) {
			settled.Result = event.Result_VOID
			settled.Failed = failed(o)
		}
		all = append(all, settled)
	}
	if c.Storage.DeltaBytes == 0 {
		return all
	}
	if settled == nil || settled.Anonymous || settled.Account != c.Storage.Account {
		settled = &event.Settlement{Account: c.Storage.Account, Sequence: sequence}
		all = append(all, settled)
	}
	settled.StorageDelta, settled.StorageAtMs = c.Storage.DeltaBytes, c.Storage.AtMS
	return all
}

// Served tells whether the request is paid for: it was carried out, and o is not the replay of an
// earlier outcome.
func Served(o *event.Outcome) bool { return o.Status == event.OutcomeStatus_OK && !o.Replayed }

// failed tells whether the request counts towards too_many_failures. A replayed success does not, nor
// does a missed deadline, which is not the caller's fault.
func failed(o *event.Outcome) bool {
	return o.Status != event.OutcomeStatus_OK && o.Status != event.OutcomeStatus_DEADLINE_EXCEEDED
}
