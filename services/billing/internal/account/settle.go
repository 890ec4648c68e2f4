package account

import (
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// settle closes the hold that a settlement names, and counts the reported storage.
func (f *Fold) settle(item *event.Settlement) {
	if item.StorageDelta != 0 && !item.Anonymous {
		if a := f.account(item.Account); a != nil {
			a.store(&f.base, item.StorageDelta, item.StorageAtMs)
		}
	}
	if len(item.RequestId) != 16 || item.Result != event.Result_SERVED && item.Result != event.Result_VOID {
		return
	}
	h := f.holds.byRequest[event.RequestID(item.RequestId)]
	switch {
	case h == nil:
		f.settleUnknown(item)
	case h.result != event.Result_RESULT_UNSPECIFIED:
		f.settleLate(item, h)
	case item.Result == event.Result_SERVED:
		f.serve(h, f.time, false)
	default:
		p := h.principal
		f.remain(h, f.time)
		f.void(h, f.time, false)
		f.records.traceVoidedBy(item)
		if item.Failed {
			f.principals.fail(p)
		}
		f.principals.reap(p)
	}
}

// serve closes an open hold as served. After a time-out, a settlement may still void it.
func (f *Fold) serve(h *hold, at int64, timedOut bool) {
	p := h.principal
	f.touch(p)
	if h.movable {
		f.refresh(p.account)
	}
	f.holds.removeOpen(h)
	if p.account != nil {
		f.credits.enterCharge(p.account, h, at)
	}
	h.timedOut = timedOut
	status := SettlementServed
	if timedOut {
		status = SettlementServedUnsettled
	}
	f.records.ended(h, status)
	switch {
	case !timedOut:
		f.credits.final(h) // a later settlement can only take back a time-out
	case h.movable:
		p.latePaid++
	}
	if h.hasIdempotency || timedOut {
		if !timedOut {
			f.holds.unindex(h)
		}
		f.holds.remember(h, event.Result_SERVED, at)
		return
	}
	f.drop(h)
	f.principals.reap(p)
}

// void refunds an open hold.
func (f *Fold) void(h *hold, at int64, timedOut bool) {
	p := h.principal
	f.touch(p)
	if p.account != nil {
		f.refresh(p.account)
	}
	f.holds.removeOpen(h)
	f.giveBack(h, at)
	f.records.ended(h, SettlementVoid)
	if !timedOut {
		f.drop(h)
		return
	}
	h.timedOut = true
	if h.hasIdempotency { // free for another attempt
		delete(f.holds.byIdempotency, h.idempotency)
		h.hasIdempotency = false
	}
	f.holds.remember(h, event.Result_VOID, at)
}

// giveBack reverses an admission's counting and payment, and makes a paid request free if there is now room for it. The ledger
// must not have charged the price, or must have refunded it. The account's terms must be fresh.
func (f *Fold) giveBack(h *hold, at int64) {
	p := h.principal
	if n := p.network; n != nil {
		if i, found := slices.BinarySearch(n.admitted, h.time); found {
			n.admitted = slices.Delete(n.admitted, i, i+1)
		}
		f.credits.unhold(p, h.key)
		return
	}
	a := p.account
	a.unuse(&f.base, h)
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		a.unspend(&f.base, h.payment())
	}
	if c := a.counted(h.month); c != nil {
		c.unbill(&f.base, h)
		take(&f.base, "used requests", &c.used[h.key], 1)
		if h.charge == event.ChargeSource_CHARGE_CREDITS {
			take(&f.base, "overage requests", &c.charging().overage[h.key], 1)
			take(&f.base, "spent credits", &c.charging().spent[h.key], h.cost)
		}
		if h.movable {
			take(&f.base, "paid requests", &c.charging().paid[h.key], 1)
		}
		f.countDay(a, h.day, h.key, h.counted(-1))
		f.linkHold(a, event.EntryUndone, h, at)
	}
	f.credits.refund(a, h, at)
	if h.movable {
		h.movable = false
		if h.result != event.Result_RESULT_UNSPECIFIED {
			take(&f.base, "late paid holds", &a.latePaid, 1)
		}
		return
	}
	f.makeRoom(a, h.month, h.key, at)
	f.credits.unhold(p, h.key)
}

// timeOut closes an unsettled hold. A write is voided, because its service settles all writes that it executes. A read counts
// as served: an edge that died after answering must not remove an acknowledged request from the count.
func (f *Fold) timeOut(h *hold) {
	at := h.time + HoldMillis
	if a := h.principal.account; a != nil {
		f.rollTo(a, f.month.at(at))
	}
	if h.write && !f.prices.admitsMore(h.request) {
		f.remain(h, at)
		f.void(h, at, true)
	} else {
		f.serve(h, at, true)
	}
}

// settleLate handles a settlement of a closed hold. It overrides a time-out. Of several, the first counts, unless it was a void and the
// write is served after all.
func (f *Fold) settleLate(item *event.Settlement, h *hold) {
	p := h.principal
	if p.account != nil {
		f.account(p.id) // closes the months that have ended
	}
	f.touch(p)
	switch {
	case h.result == item.Result && h.timedOut:
		h.timedOut = false // another settlement changes nothing
		if h.result == event.Result_SERVED {
			f.finalLate(h)
		}
		if item.Failed && item.Result == event.Result_VOID {
			f.principals.fail(p)
		}
	case item.Result == event.Result_SERVED && h.result == event.Result_VOID:
		h.result, h.timedOut = event.Result_SERVED, false
		if f.rules >= Rules5 { // its service must not charge it again
			f.principals.takeLate(p, h.request, h.key)
		}
		f.credits.release(h)
		f.chargeLate(item, h.keyNumber, h.lineage)
	case item.Result == event.Result_VOID && h.timedOut:
		f.takeBack(h)
		if item.Failed {
			f.principals.fail(p)
		}
		f.changed(p.id)
		f.forget(h)
	}
}

// takeBack voids a hold served by a time-out. The ledger gets the refund first.
func (f *Fold) takeBack(h *hold) {
	a := h.principal.account
	if a != nil {
		f.refresh(a)
	}
	if a != nil && h.cost > 0 {
		f.credits.enterFor(a, h.admission(), f.time, &event.LedgerEntry{
			Type: event.LedgerType_LEDGER_ADJUSTMENT, AmountMicros: num.Int64(h.cost), Reason: "request failed",
		})
	}
	f.giveBack(h, f.time)
	h.timedOut = false
	f.records.ended(h, SettlementVoid)
}

// settleUnknown handles an edge's settlement whose hold is not remembered. A served read counts already, by its time-out.
func (f *Fold) settleUnknown(item *event.Settlement) {
	if item.Result != event.Result_VOID || !item.Failed {
		return
	}
	if item.Anonymous {
		f.principals.fail(&f.principals.network(item.Account).principal)
	} else if a := f.account(item.Account); a != nil {
		f.principals.fail(&a.principal)
	}
}

// chargeLate counts a request served after its hold was voided, by the present limits and prices. If neither quota nor credits
// cover it, or a limit or cap is reached, it is waived, so that no balance is ever overspent.
func (f *Fold) chargeLate(item *event.Settlement, keyNumber, lineage uint32) {
	key := plan.QuotaKey(item.QuotaKey)
	if f.prices.current == nil || !f.counts(key) {
		return
	}
	request := event.RequestID(item.RequestId)
	if item.Anonymous {
		n := f.principals.network(item.Account)
		status := SettlementWaived
		if len(n.admitted) < f.prices.current.AnonymousLimit {
			f.principals.logAdmitted(n)
			status = SettlementServed
		}
		f.principals.reap(&n.principal)
		f.records.traceSettled(request, status)
		return
	}
	a := f.account(item.Account)
	if a == nil {
		return
	}
	h := f.holds.newHold()
	h.request, h.key, h.principal, h.keyNumber, h.lineage = request, key, &a.principal, keyNumber, lineage
	h.month, h.sequence, h.index, h.charge = a.month, f.sequence, chargedLate, event.ChargeSource_CHARGE_QUOTA
	h.time, h.day = f.time, a.dayOf(&f.base)
	term := f.prices.current.Plans[a.tier].Terms[key]
	used := num.Int64(a.current.used[key])
	l, covered := a.lineageOf(lineage), true
	switch {
	case l.full(key, a.month):
		covered = false
	case term.Limit == plan.Unlimited:
		h.charge = event.ChargeSource_CHARGE_NONE
	case used < term.Limit:
	case term.Overage && a.available >= int64(term.Price) && a.keepsCaps(&f.base, l, num.Uint64(term.Price)):
		f.credits.overage(a, h, num.Uint64(term.Price))
		f.credits.enterCharge(a, h, f.time)
	default:
		covered = false
	}
	if !covered {
		a.current.charging().waived[key]++
		f.link(a, &event.Entry{
			Kind: event.EntryLate, TimeMs: f.time, Month: decimalMonth(h.month), QuotaKey: num.Uint8(key), Charge: event.ChargeWaived,
			Key: keyNumber, Request: request,
		})
		f.records.ended(h, SettlementWaived)
		f.holds.freeHold(h)
		return
	}
	a.current.used[key]++
	if l != nil {
		l.used[key]++
	}
	f.alerts.usedMore(a, key, term.Limit)
	f.countDay(a, h.day, key, h.counted(1))
	f.linkHold(a, event.EntryLate, h, f.time)
	f.records.traceCharged(h, num.Uint64(term.Price))
	f.records.recordCharged(h)
	if f.records.watches(request) {
		f.records.trace.answer.ChargedLate = true
	}
	f.records.ended(h, SettlementServed)
	if h.movable {
		f.credits.keepPaid(a, h)
	}
	f.credits.release(h)
	f.holds.freeHold(h)
}
