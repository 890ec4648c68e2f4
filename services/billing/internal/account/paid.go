package account

import (
	"cmp"
	"math"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// Failed calls cost nothing, neither by themselves nor by their effect on concurrent calls. While nothing is in flight and
// neither tier nor prices have changed, an account has paid for max(0, served - limit) requests per month and quota key.
//
// A hold counts from its admission. So a call that will fail may take the last free request, and a concurrent call pays. When
// the first is voided, the newest paid request of that month and key becomes free, and its credits are refunded.
//
// The memory needed for that is bounded by the holds that may still be voided. Each void makes at most one paid request free,
// always the newest. A request is admitted free only while none is paid. So from the first paid request on, the number of holds
// not paid by credits can only fall: if it is n, the newest n of the settled paid requests are enough. Open ones are in the
// list of holds anyway.

// paidList holds the newest settled requests of a month and quota key that credits paid, oldest first.
type paidList struct {
	key   plan.QuotaKey
	month uint32
	items []paidRequest
}

// paidRequest is a served request whose credits may be refunded.
type paidRequest struct {
	request   event.RequestID
	sequence  uint64 // of its admission
	index     uint32
	keyNumber uint32 // as hold.keyNumber
	lineage   uint32 // as hold.lineage
	day       uint32 // in which it counts
	time      int64  // of its admission
	cost      uint64
	use       []grantUse
}

// chargedLate is the index of a request charged late: it sorts after the admissions of the message.
const chargedLate = math.MaxUint32

func compareAdmitted(sequence uint64, index uint32, than uint64, thanIndex uint32) int {
	return cmp.Or(cmp.Compare(sequence, than), cmp.Compare(index, thanIndex))
}

// refresh ends the account's terms if prices, rules or its tier have changed since.
func (f *Fold) refresh(a *account) {
	if a.nextTier != 0 {
		f.rollTo(a, f.month)
	}
	if a.terms < f.prices.terms {
		if next := f.prices.of(a.terms) + 1; next > 0 && next < len(f.prices.list) {
			a.endPeriod(f.prices.list[next].fromMillis, false)
		}
		f.credits.newTerms(a, f.prices.terms)
	}
}

// newTerms makes all earlier payments final: voids no longer refund them.
func (c *credits) newTerms(a *account, terms uint64) {
	c.touch(&a.principal)
	a.terms = terms
	for _, counted := range []*counters{&a.current, a.previous} {
		if counted != nil && counted.charges != nil {
			counted.charges.paid = [plan.KeyCount]uint64{}
		}
	}
	for h := a.open.head; h != nil; h = h.after() {
		a.fix(h)
	}
	if a.latePaid > 0 {
		for h := a.closed.head; h != nil; h = h.after() {
			a.fix(h)
		}
		a.latePaid = 0
	}
	for i := range a.paid {
		c.dropPaid(&a.paid[i], len(a.paid[i].items))
	}
	a.paid = nil
}

// fix makes the payment of a hold immune to other voids. Its own void may refund another one instead.
func (a *account) fix(h *hold) {
	if h.movable {
		h.movable = false
		a.holding[h.key]++
	}
}

// final ends what a served hold's own settlement may change. Another void may still refund its payment.
func (c *credits) final(h *hold) {
	if h.movable {
		c.keepPaid(h.principal.account, h)
		return
	}
	c.release(h)
	c.unhold(h.principal, h.key)
}

// finalLate is final for a hold served by a time-out.
func (f *Fold) finalLate(h *hold) {
	if h.movable {
		f.refresh(h.principal.account)
	}
	if h.movable {
		take(&f.base, "late paid holds", &h.principal.latePaid, 1)
	}
	f.credits.final(h)
}

// unhold records that a hold whose payment no longer moves can't be voided any more.
func (c *credits) unhold(p *principal, key plan.QuotaKey) {
	take(c.base, "holds that may be voided", &p.holding[key], 1)
	if a := p.account; a != nil && len(a.paid) > 0 {
		c.trimPaid(a, key)
	}
}

// keepPaid remembers a served paid request if a void may refund it. The hold releases its grants to it.
func (c *credits) keepPaid(a *account, h *hold) {
	h.movable = false
	if a.holding[h.key] == 0 {
		c.release(h)
		return
	}
	i := slices.IndexFunc(a.paid, func(l paidList) bool { return l.key == h.key && l.month == h.month })
	if i < 0 {
		i = len(a.paid)
		a.paid = append(a.paid, paidList{key: h.key, month: h.month})
	}
	l := &a.paid[i]
	at := len(l.items)
	for at > 0 && compareAdmitted(l.items[at-1].sequence, l.items[at-1].index, h.sequence, h.index) > 0 {
		at--
	}
	l.items = slices.Insert(l.items, at, paidRequest{
		request: h.request, sequence: h.sequence, index: h.index, cost: h.cost, use: h.use,
		keyNumber: h.keyNumber, lineage: h.lineage, day: h.day, time: h.time,
	})
	h.use = nil
	c.trimPaid(a, h.key)
}

// trimPaid forgets the oldest paid requests that no void can reach any more.
func (c *credits) trimPaid(a *account, key plan.QuotaKey) {
	for i := range a.paid {
		if l := &a.paid[i]; l.key == key {
			c.dropPaid(l, len(l.items)-int(a.holding[key]))
		}
	}
	a.tidyPaid()
}

// dropMonths forgets the paid requests of months that have left the state.
func (c *credits) dropMonths(a *account) {
	for i := range a.paid {
		if l := &a.paid[i]; l.month+1 < a.month {
			c.dropPaid(l, len(l.items))
		}
	}
	a.tidyPaid()
}

func (a *account) tidyPaid() {
	a.paid = slices.DeleteFunc(a.paid, func(l paidList) bool { return len(l.items) == 0 })
	if len(a.paid) == 0 {
		a.paid = nil
	}
}

// dropPaid forgets the oldest n requests of a list.
func (c *credits) dropPaid(l *paidList, n int) {
	if n <= 0 {
		return
	}
	for i := range l.items[:n] {
		c.releaseUses(l.items[i].use)
	}
	l.items = slices.Delete(l.items, 0, n)
}

// makeRoom makes the newest paid requests of a month and quota key free, as far as a void has made room.
func (f *Fold) makeRoom(a *account, month uint32, key plan.QuotaKey, at int64) {
	c := a.counted(month)
	if c == nil {
		return
	}
	limit := f.prices.current.Plans[a.tier].Terms[key].Limit
	for limit != plan.Unlimited {
		_, paid, _, _ := c.charged(key)
		if paid == 0 || num.Int64(paid) <= num.Int64(c.used[key])-limit {
			return
		}
		if !f.makeFree(a, c, month, key, at) {
			f.fault("%d requests are paid, but none is known", paid)
			return
		}
	}
}

// makeFree refunds the newest paid request. The request stays counted.
func (f *Fold) makeFree(a *account, c *counters, month uint32, key plan.QuotaKey, at int64) bool {
	h := a.newestPaid(month, key)
	i := slices.IndexFunc(a.paid, func(l paidList) bool { return l.key == key && l.month == month })
	if i >= 0 {
		items := a.paid[i].items
		last := &items[len(items)-1]
		if h == nil || compareAdmitted(last.sequence, last.index, h.sequence, h.index) > 0 {
			a.uncount(&f.base, c, payment{key, month, last.lineage, last.day, last.cost})
			f.countDay(a, last.day, key, UsageDelta{Key: last.keyNumber, Overage: -1, SpentMicros: -num.Int64(last.cost)})
			f.credits.enterReturn(a, last.admission(key), last.cost, at)
			f.link(a, last.freed(key, month, at))
			f.credits.refundUses(a, last.use, at)
			f.records.returned(a, last.request, last.time, last.index)
			*last = paidRequest{}
			a.paid[i].items = items[:len(items)-1]
			a.tidyPaid()
			return true
		}
	}
	if h == nil {
		return false
	}
	a.uncount(&f.base, c, h.payment())
	f.countDay(a, h.day, key, UsageDelta{Key: h.keyNumber, Overage: -1, SpentMicros: -num.Int64(h.cost)})
	if h.result == event.Result_RESULT_UNSPECIFIED {
		take(&f.base, "open paid holds", &a.openPaid, 1)
		h.returned = h.cost // the ledger gets it when the hold is served
	} else {
		take(&f.base, "late paid holds", &a.latePaid, 1)
		f.credits.enterReturn(a, h.admission(), h.cost, at)
	}
	f.linkHold(a, event.EntryFree, h, at)
	f.credits.refund(a, h, at)
	f.records.returned(a, h.request, h.time, h.index)
	h.charge, h.cost = event.ChargeSource_CHARGE_QUOTA, 0
	a.fix(h)
	return true
}

// uncount subtracts a paid request from the payments.
func (a *account) uncount(b *base, c *counters, p payment) {
	of := c.charging()
	take(b, "overage requests", &of.overage[p.key], 1)
	take(b, "paid requests", &of.paid[p.key], 1)
	take(b, "spent credits", &of.spent[p.key], p.cost)
	a.unspend(b, p)
}

// newestPaid is the newest hold whose payment may be refunded: an open one, or one served only by a time-out.
func (a *account) newestPaid(month uint32, key plan.QuotaKey) *hold {
	newest := func(from *hold) *hold {
		for h := from; h != nil; h = h.links[linkPrincipal].prev {
			if h.movable && h.key == key && h.month == month {
				return h
			}
		}
		return nil
	}
	var open, late *hold
	if a.openPaid > 0 {
		open = newest(a.open.tail)
	}
	if a.latePaid > 0 {
		for h := a.closed.tail; h != nil; h = h.links[linkPrincipal].prev {
			if h.movable && h.key == key && h.month == month && (late == nil || compareHolds(h, late) > 0) {
				late = h
			}
		}
	}
	if open == nil || late != nil && compareHolds(late, open) > 0 {
		return late
	}
	return open
}

// enterReturn enters the refund of a served request.
func (c *credits) enterReturn(a *account, r admission, cost uint64, at int64) {
	if cost == 0 {
		return
	}
	c.enterFor(a, r, at, &event.LedgerEntry{
		Type: event.LedgerType_LEDGER_ADJUSTMENT, AmountMicros: num.Int64(cost), Reason: "a request beside it failed: this one is free",
	})
}

func (p *paidRequest) admission(key plan.QuotaKey) admission {
	return admission{request: p.request, key: key, sequence: p.sequence, index: p.index, time: p.time, day: p.day}
}

// freed is the account's entry that a void has made the request free.
func (p *paidRequest) freed(key plan.QuotaKey, month uint32, at int64) *event.Entry {
	return &event.Entry{
		Kind: event.EntryFree, TimeMs: at, Month: decimalMonth(month), QuotaKey: num.Uint8(key), Charge: uint8(event.ChargeSource_CHARGE_CREDITS),
		Micros: num.Int64(p.cost), Key: p.keyNumber, Request: p.request,
	}
}

// held reports whether open holds may undo the refusal of a request: holds of its quota key by freeing quota, and holds paid by
// credits by refunding enough.
func (a *account) held(key plan.QuotaKey, term plan.Term) bool {
	if a.open.count == 0 {
		return false
	}
	if num.Int64(a.current.used[key])-int64(a.openBy[key]) < term.Limit {
		return true
	}
	if !term.Overage {
		return false
	}
	back := a.settled // available, plus what open holds have taken
	for _, l := range a.paid {
		if a.openBy[l.key] > 0 {
			for _, p := range l.items {
				back += num.Int64(p.cost)
			}
		}
	}
	return back >= int64(term.Price)
}
