package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// account returns an account about to change, after closing the months that have ended since its last change.
func (f *Fold) account(id uint64) *account {
	a := f.principals.accounts[id]
	if a == nil {
		return nil
	}
	f.touch(&a.principal)
	f.rollTo(a, f.month)
	f.refresh(a)
	return a
}

// rollTo moves an account into a month, unless it is in a later one.
func (f *Fold) rollTo(a *account, to month) {
	if a.month >= to.number {
		return
	}
	tier := a.tier
	f.prices.roll(a, to, func(s *event.StatementAnswer) {
		f.effects.Closed = append(f.effects.Closed, Closed{event.AccountID(a.id), s})
	})
	if a.tier != tier {
		f.credits.newTerms(a, f.sequence)
	}
	if len(a.paid) > 0 {
		f.credits.dropMonths(a)
	}
}

// monthOf is the month in which an account's requests count: the present one, or a later one that had begun for it before the
// time was turned back.
func (a *account) monthOf(b *base) month {
	if a.month <= b.month.number {
		return b.month
	}
	return monthNumber(a.month)
}

// usage lists the counters of quota keys.
func (c *counters) usage(of *plan.Plan, keys []plan.QuotaKey) []*event.KeyUsage {
	list := make([]*event.KeyUsage, 0, len(keys))
	for _, key := range keys {
		limit := of.Terms[key].Limit
		overage, _, spent, waived := c.charged(key)
		list = append(list, &event.KeyUsage{
			QuotaKey: uint32(key), Used: c.used[key], Limit: limit, Remaining: remaining(limit, c.used[key]),
			Overage: overage, SpentMicros: spent, Waived: waived, RefundedMicros: c.refunded(key),
		})
	}
	return list
}

// remaining is the number of free requests left.
func remaining(limit int64, used uint64) int64 {
	if limit == plan.Unlimited {
		return plan.Unlimited
	}
	return max(0, limit-num.Int64(used))
}

// counted returns the counters of the current or the previous month, nil for an older one.
func (a *account) counted(month uint32) *counters {
	switch {
	case month == a.month:
		return &a.current
	case month+1 == a.month:
		return a.before()
	}
	return nil
}

// hasPlan reports whether accounts may be on a tier.
func (l *prices) hasPlan(t plan.Tier) bool {
	return t.BuiltIn() || t.Valid() && l.current != nil && l.current.Plans[t].Name != ""
}
