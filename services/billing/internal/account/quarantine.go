package account

import (
	"container/heap"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// An account with an impossible counter is quarantined: its metered calls are refused until an admin resumes it, and everyone
// else is served. The fold decides that, so every replica and replay decides the same. What was in flight ends without a
// charge, and the balance becomes what the grants have left, so that nothing later depends on the wrong state.

// Quarantined is an account, or a network, whose state a message has shown to be impossible.
type Quarantined struct {
	Account event.AccountID // 0: an anonymous network, which is served on
	Reason  string
}

// quarantine refuses all later admissions of an account. The message's end isolates it.
func (b *base) quarantine(p *principal, reason string) {
	if a := p.account; a != nil && a.quarantined == 0 {
		a.quarantined, a.quarantineReason = max(b.time, 1), reason
		b.quarantines++
	}
	if slices.Contains(b.faulty, p) {
		return
	}
	b.faulty = append(b.faulty, p)
	q := Quarantined{Reason: reason}
	if p.account != nil {
		q.Account = event.AccountID(p.id)
		b.effects.Changed = append(b.effects.Changed, q.Account)
	}
	b.effects.Quarantined = append(b.effects.Quarantined, q)
}

// Quarantined is the number of accounts in quarantine.
func (b *base) Quarantined() int { return b.quarantines }

// release ends the account's quarantine, if it is in one.
func (b *base) release(a *account) {
	if a.quarantined != 0 {
		a.quarantined, a.quarantineReason = 0, ""
		b.quarantines--
	}
}

// QuarantinedAccounts returns the accounts in quarantine, by id.
func (s *principals) QuarantinedAccounts() (ids []event.AccountID) {
	for id, a := range s.accounts { // sorted below
		if a.quarantined != 0 {
			ids = append(ids, event.AccountID(id))
		}
	}
	slices.Sort(ids)
	return ids
}

// isolateFaulty makes the principals found by the message consistent again.
func (f *Fold) isolateFaulty() {
	for i, p := range f.faulty {
		f.isolate(p)
		f.faulty[i] = nil
	}
	f.faulty = f.faulty[:0]
}

// isolate forgets what is in flight, without a charge, and computes anew what follows from the rest. It trusts no counter.
func (f *Fold) isolate(p *principal) {
	f.touch(p)
	for h := p.open.head; h != nil; {
		next := h.after()
		f.holds.remove(&f.holds.open, h)
		if p.account != nil {
			f.forgive(p.account, h)
		}
		f.discard(h)
		h = next
	}
	for h := p.closed.head; h != nil; {
		next := h.after()
		f.holds.remove(&f.holds.closed, h)
		f.discard(h)
		h = next
	}
	p.open, p.closed = holdList{kind: linkPrincipal}, holdList{kind: linkPrincipal}
	p.openBy, p.holding = [plan.KeyCount]uint32{}, [plan.KeyCount]uint32{}
	p.openPaid, p.latePaid, p.late = 0, 0, nil
	if p.account == nil {
		f.principals.reap(p)
		return
	}
	f.credits.settleBalance(p.account)
}

// forgive makes an open hold of an account free. The request stays counted.
func (f *Fold) forgive(a *account, h *hold) {
	f.records.ended(h, SettlementWaived)
	if h.charge != event.ChargeSource_CHARGE_CREDITS {
		return
	}
	for _, u := range h.use {
		u.grant.left = min(u.grant.left+u.amount, u.grant.amount)
	}
	if c := a.counted(h.month); c != nil {
		of := c.charging()
		reduce(&of.overage[h.key], 1)
		reduce(&of.spent[h.key], h.cost)
		f.countDay(a, h.day, h.key, UsageDelta{Key: h.keyNumber, Overage: -1, SpentMicros: -num.Int64(h.cost)})
		c.clampPeriods(h.key)
		f.linkHold(a, event.EntryFree, h, f.time)
	}
	if a.spending.day == h.day {
		reduce(&a.spending.today, h.cost)
	}
	reduce(&a.spending.total, h.cost)
	if l := a.lineageOf(h.lineage); l != nil {
		if l.spending.day == h.day {
			reduce(&l.spending.today, h.cost)
		}
		reduce(&l.spending.total, h.cost)
		if l.month == h.month {
			reduce(&l.overage[h.key], 1)
			reduce(&l.spent[h.key], h.cost)
		}
	}
	f.records.returned(a, h.request, h.time, h.index)
}

// discard drops a hold without its grants.
func (f *Fold) discard(h *hold) {
	clear(h.use)
	h.use = h.use[:0]
	f.drop(h)
}

// settleBalance makes the balance what the grants have left. The difference enters the ledger.
func (c *credits) settleBalance(a *account) {
	a.paid = nil
	for _, of := range []*counters{&a.current, a.previous} {
		if of == nil {
			continue
		}
		if of.charges != nil {
			of.charges.paid = [plan.KeyCount]uint64{}
		}
		for key := range plan.KeyCount {
			of.clampPeriods(plan.QuotaKey(key))
		}
	}
	a.available = 0
	a.grants = slices.DeleteFunc(a.grants, func(g *grant) bool {
		g.refs = 0
		if g.over || g.left == 0 {
			if g.expires != 0 && !g.over {
				heap.Remove(&c.expiries, g.heap)
			}
			return true
		}
		a.available += num.Int64(g.left)
		return false
	})
	c.repay(a)
	if difference := a.available - a.owed - a.settled; difference != 0 {
		c.enter(a, 0, &event.LedgerEntry{
			TimeMs: c.time, Type: event.LedgerType_LEDGER_ADJUSTMENT, AmountMicros: difference, Reason: "corrected: the account is in quarantine",
		})
	}
}

// reduce subtracts down to zero.
func reduce(counter *uint64, n uint64) { *counter -= min(*counter, n) }

// clampPeriods keeps the ended periods of a month within its counters.
func (c *counters) clampPeriods(key plan.QuotaKey) {
	overage, _, spent, _ := c.charged(key)
	used := c.used[key]
	for i := range c.ended() {
		p := &c.bill.periods[i]
		p.used[key], p.paid[key], p.amount[key] = min(p.used[key], used), min(p.paid[key], overage), min(p.amount[key], spent)
		used, overage, spent = used-p.used[key], overage-p.paid[key], spent-p.amount[key]
	}
}
