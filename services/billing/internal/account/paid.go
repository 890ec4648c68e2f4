package account

import (
	"cmp"
	"math"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/recent"
)

// Failed calls cost nothing, neither themselves nor those beside them. While nothing is in flight and neither
// tier nor prices have changed, an account has paid for max(0, served - limit) requests of a month and quota key.
//
// A hold counts from its admission. So a call that will fail may take the last free request, and the call beside it pays.
// When the first is voided, the newest paid request of that month and key becomes a free one, and its credits come back.
//
// What has to be remembered for that is bounded by the holds that may still be voided. Each void makes at most one paid
// request free, always the newest. A request is admitted free only while none is paid. So from the first paid request on, the
// number of holds that credits did not pay can only fall: if it is n, the newest n of the settled paid requests are enough.
// Open ones are in the list of holds anyway.

// paidList is the newest settled requests of a month and quota key that credits paid, the oldest first.
type paidList struct {
	key   plan.QuotaKey
	month uint32
	items []paidRequest
}

// paidRequest is one that was served, and whose credits may come back.
type paidRequest struct {
	request   event.RequestID
	sequence  uint64 // of its admission
	index     uint32
	keyNumber uint32 // as hold.keyNumber
	lineage   uint32 // likewise
	day       uint32 // in which it is counted
	cost      uint64
	use       []grantUse
	recent    recent.Ref // not part of the state
}

// chargedLate is the index of a request that is charged late: it comes after the admissions of the message.
const chargedLate = math.MaxUint32

func compareAdmitted(sequence uint64, index uint32, than uint64, thanIndex uint32) int {
	return cmp.Or(cmp.Compare(sequence, than), cmp.Compare(index, thanIndex))
}

// refresh ends the account's terms if prices or rules have changed since.
func (f *Fold) refresh(a *account) {
	if a.terms < f.prices.terms {
		f.credits.newTerms(a, f.prices.terms)
	}
}

// newTerms makes every payment so far one that no void gives back.
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

// fix makes a paid hold one whose payment no other void gives back. Its own void may give another's back instead.
func (a *account) fix(h *hold) {
	if h.movable {
		h.movable = false
		a.holding[h.key]++
	}
}

// final ends what the own settlement of a served hold may change. A void of another may still give its payment back.
func (c *credits) final(h *hold) {
	if h.movable {
		c.keepPaid(h.principal.account, h)
		return
	}
	c.release(h)
	c.unhold(h.principal, h.key)
}

// finalLate is final for a hold that a time-out has served.
func (f *Fold) finalLate(h *hold) {
	if h.movable {
		f.refresh(h.principal.account)
	}
	if h.movable {
		take(&f.base, "late paid holds", &h.principal.latePaid, 1)
	}
	f.credits.final(h)
}

// unhold notes that a hold which credits did not pay can't be voided any more.
func (c *credits) unhold(p *principal, key plan.QuotaKey) {
	take(c.base, "holds that may be voided", &p.holding[key], 1)
	if a := p.account; a != nil && len(a.paid) > 0 {
		c.trimPaid(a, key)
	}
}

// keepPaid remembers a paid request that was served, if a void may give its payment back. The hold gives its grants up.
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
		keyNumber: h.keyNumber, lineage: h.lineage, day: h.day, recent: h.recent,
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

// makeRoom makes the newest paid requests of a month and quota key free, for those that a void has made room for.
func (f *Fold) makeRoom(a *account, month uint32, key plan.QuotaKey, at int64) {
	c := a.counted(month)
	if c == nil {
		return
	}
	limit := f.prices.current.Terms[a.tier][key].Limit
	for limit != plan.Unlimited {
		_, paid, _, _ := c.charged(key)
		if paid == 0 || int64(paid) <= int64(c.used[key])-limit {
			return
		}
		if !f.makeFree(a, c, month, key, at) {
			f.fault("%d requests are paid, and none is known", paid)
			return
		}
	}
}

// makeFree gives the price of the newest paid request back. The request stays counted.
func (f *Fold) makeFree(a *account, c *counters, month uint32, key plan.QuotaKey, at int64) bool {
	h := f.newestPaid(a, month, key)
	i := slices.IndexFunc(a.paid, func(l paidList) bool { return l.key == key && l.month == month })
	if i >= 0 {
		items := a.paid[i].items
		last := &items[len(items)-1]
		if h == nil || compareAdmitted(last.sequence, last.index, h.sequence, h.index) > 0 {
			a.uncount(&f.base, c, payment{key, month, last.lineage, last.day, last.cost})
			f.countDay(a, last.day, key, UsageDelta{Key: last.keyNumber, Overage: -1, SpentMicros: -int64(last.cost)})
			f.credits.enterReturn(a, last.request, key, last.cost, at)
			f.credits.refundUses(a, last.use, at)
			f.records.returned(a, last.recent, last.request)
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
	f.countDay(a, h.day, key, UsageDelta{Key: h.keyNumber, Overage: -1, SpentMicros: -int64(h.cost)})
	if h.result == event.Result_RESULT_UNSPECIFIED {
		take(&f.base, "open paid holds", &a.openPaid, 1)
		h.returned = h.cost // the ledger has it when the hold is served
	} else {
		take(&f.base, "late paid holds", &a.latePaid, 1)
		f.credits.enterReturn(a, h.request, key, h.cost, at)
	}
	f.credits.refund(a, h, at)
	f.records.returned(a, h.recent, h.request)
	h.charge, h.cost = event.ChargeSource_CHARGE_QUOTA, 0
	a.fix(h)
	return true
}

// uncount takes a paid request out of what was paid.
func (a *account) uncount(b *base, c *counters, p payment) {
	of := c.charging()
	take(b, "overage requests", &of.overage[p.key], 1)
	take(b, "paid requests", &of.paid[p.key], 1)
	take(b, "spent credits", &of.spent[p.key], p.cost)
	a.unspend(b, p)
}

// newestPaid is the newest hold whose payment may come back: an open one, or one that only a time-out has served.
func (f *Fold) newestPaid(a *account, month uint32, key plan.QuotaKey) *hold {
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

// enterReturn enters the price of a served request that comes back.
func (c *credits) enterReturn(a *account, request event.RequestID, key plan.QuotaKey, cost uint64, at int64) {
	if cost == 0 {
		return
	}
	c.enter(a, &event.LedgerEntry{
		TimeMs: at, Type: event.LedgerType_LEDGER_ADJUSTMENT, QuotaKey: uint32(key), AmountMicros: int64(cost),
		RequestId: slices.Clone(request[:]), Reason: "a request beside it failed: this one is free",
	})
}

// held tells whether open holds may undo the refusal of a request: those of its quota key by giving quota back, and those that
// credits paid by giving enough credits back.
func (a *account) held(key plan.QuotaKey, term plan.Term) bool {
	if a.open.count == 0 {
		return false
	}
	if int64(a.current.used[key])-int64(a.openBy[key]) < term.Limit {
		return true
	}
	if !term.Overage {
		return false
	}
	back := a.settled // what is available, and what open holds have taken
	for _, l := range a.paid {
		if a.openBy[l.key] > 0 {
			for _, p := range l.items {
				back += int64(p.cost)
			}
		}
	}
	return back >= int64(term.Price)
}
