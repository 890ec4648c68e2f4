package fold

import "quire.dev/pkg/event"

// Settlements appends the events that tell billing how a request ended: its admission is served or void, and the owner's
// storage has changed, and what its webhooks may want to know. A request that was not metered and changed neither has none. The first one is written into the empty
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
	what := announced(r, o, c)
	if c.Storage.DeltaBytes == 0 && what == nil {
		return list
	}
	if r.Charge == nil || t.Anonymous || t.Account != o.Owner {
		t = &event.Settlement{Account: o.Owner, Sequence: sequence}
		list = append(list, t)
	}
	t.StorageDelta, t.StorageAtMs, t.Content = c.Storage.DeltaBytes, c.Storage.AtMS, what
	return list
}

// announced returns the change that billing is notified of for the owner's webhooks, or nil. With the charge of an owner's write, billing
// has said whether any webhook subscribes to it. A burn is someone else's read, whose charge says nothing about the owner's webhooks, so
// billing is always notified.
func announced(r *event.Request, o *event.Outcome, c Change) *event.ContentChange {
	if o.Owner == 0 || !Served(o) || !c.Burned && !r.Charge.GetAnnounce() {
		return nil
	}
	d, action := c.Put, event.ContentAction_CONTENT_CREATED
	switch {
	case c.Burned:
		d, action = c.Deleted, event.ContentAction_CONTENT_BURNED
	case c.Delete:
		d, action = c.Deleted, event.ContentAction_CONTENT_DELETED
	case c.Version != nil:
		action = event.ContentAction_CONTENT_UPDATED
	case d == nil:
		return nil
	}
	return &event.ContentChange{
		Action: action, Item: r.Item, Version: d.Version, Visibility: d.Visibility, SizeBytes: d.GetContent().GetSizeBytes(), ExpiresMs: d.ExpiresMs,
	}
}

// Served reports whether the request is charged: it was carried out, and o is not a replay.
func Served(o *event.Outcome) bool { return o.Status == event.OutcomeStatus_OK && !o.Replayed }

// failed reports whether the request counts towards too_many_failures. A replayed success does not, nor does a missed deadline,
// which is not the caller's fault.
func failed(o *event.Outcome) bool {
	return o.Status != event.OutcomeStatus_OK && o.Status != event.OutcomeStatus_DEADLINE_EXCEEDED
}
