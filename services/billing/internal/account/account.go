package account

import (
	"quire.dev/pkg/credit"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// account finds an account that is about to change, and first closes the months that have ended since its last change.
func (f *Fold) account(id uint64) *account {
	a := f.accounts[id]
	if a == nil {
		return nil
	}
	f.touch(&a.principal)
	if a.month != f.month.number {
		f.roll(a, f.month, func(s *event.StatementAnswer) {
			f.effects.Closed = append(f.effects.Closed, Closed{event.AccountID(id), s})
		})
		if len(a.paid) > 0 {
			f.dropMonths(a)
		}
	}
	f.refresh(a)
	return a
}

// monthOf is the month that an account's requests count in: the present one, or a later one that had begun for it before the
// time was turned back.
func (f *Fold) monthOf(a *account) month {
	if a.month <= f.month.number {
		return f.month
	}
	return monthNumber(a.month)
}

// roll brings the account into a month. Its counters start again from zero, those of the month before are kept, and
// closed is called with the statement of each older month.
func (f *Fold) roll(a *account, to month, closed func(*event.StatementAnswer)) {
	created := monthOf(a.created).number
	for a.month < to.number {
		ended := monthNumber(a.month)
		a.integrate(ended.end)
		if a.month > created {
			s := f.statement(a, monthNumber(a.month-1))
			s.Closed = true
			closed(s)
		}
		a.previous, a.tierThen = nil, a.tier
		if !a.current.zero() {
			last := a.current
			a.previous = &last
		}
		a.current = counters{}
		a.month++
		if a.storageBytes > 0 {
			a.current.days = &storageDays{startBytes: a.storageBytes}
		}
	}
}

// statement is the statement of the current or the previous month, without telling whether it is closed.
func (f *Fold) statement(a *account, m month) *event.StatementAnswer {
	c, tier := &a.current, a.tier
	if m.number != a.month {
		c, tier = a.previous, a.tierThen
		if c == nil {
			c = &counters{}
		}
	}
	book := f.bookAt(m.end - 1)
	s := &event.StatementAnswer{
		Period: m.period(), Tier: uint32(tier),
		Usage: c.usage(tier, book), StorageFreeBytes: book.FreeStorageBytes,
	}
	for _, spent := range c.spent {
		s.SpentMicros += spent
	}
	s.StorageAverageBytes, s.StorageBilledBytes, s.StorageOverageCents = storageBill(c.byteMillis, m, book)
	s.StorageByteMsHigh, s.StorageByteMsLow = c.byteMillis.high, c.byteMillis.low
	s.StorageByDay, s.StorageDays = true, c.days.list(m, min(a.storageSince, m.end))
	return s
}

// usage lists the counters of every quota key.
func (c *counters) usage(tier plan.Tier, book *plan.Book) []*event.KeyUsage {
	list := make([]*event.KeyUsage, 0, plan.KeyCount)
	for _, key := range plan.QuotaKeys() {
		limit := book.Terms[tier][key].Limit
		list = append(list, &event.KeyUsage{
			QuotaKey: uint32(key), Used: uint64(c.used[key]), Limit: limit, Remaining: remaining(limit, c.used[key]),
			Overage: uint64(c.overage[key]), SpentMicros: c.spent[key], Waived: uint64(c.waivedOf(key)),
		})
	}
	return list
}

func (c *counters) waivedOf(key plan.QuotaKey) uint32 {
	if c.waived == nil {
		return 0
	}
	return c.waived[key]
}

func (c *counters) waive(key plan.QuotaKey, n uint32) {
	if n == 0 {
		return
	}
	if c.waived == nil {
		c.waived = &[plan.KeyCount]uint32{}
	}
	c.waived[key] += n
}

// remaining is the number of free requests that are left.
func remaining(limit int64, used uint32) int64 {
	if limit == plan.Unlimited {
		return plan.Unlimited
	}
	return max(0, limit-int64(used))
}

// counted are the counters of the current or the previous month, nil for an older one.
func (a *account) counted(month uint32) *counters {
	switch {
	case month == a.month:
		return &a.current
	case month+1 == a.month:
		return a.before()
	}
	return nil
}

// BookOf reads a published price book. Tiers and quota keys that it does not know are left out. A price above every
// possible balance is cut to one micro-credit above it.
func BookOf(b *event.PriceBook) *plan.Book {
	book := &plan.Book{
		AnonymousLimit: int(b.AnonymousLimit), AnonymousWindowMillis: b.AnonymousWindowMs,
		FreeStorageBytes: b.FreeStorageBytes, StorageCentsPerGBMonth: b.StorageCentsPerGbMonth,
	}
	for _, t := range b.Tiers {
		for _, term := range t.Terms {
			tier, key := plan.Tier(t.Tier), plan.QuotaKey(term.QuotaKey)
			if validTier(tier) && key.Valid() {
				book.Terms[tier][key] = plan.Term{
					Limit: term.Limit, Price: credit.Micros(min(term.PriceMicros, maxBalance+1)), Overage: term.Overage,
				}
			}
		}
	}
	return book
}

// PriceEvent is a price book to be published, without its time.
func PriceEvent(book *plan.Book) *event.PriceBook {
	b := &event.PriceBook{
		AnonymousLimit: uint32(book.AnonymousLimit), AnonymousWindowMs: book.AnonymousWindowMillis,
		FreeStorageBytes: book.FreeStorageBytes, StorageCentsPerGbMonth: book.StorageCentsPerGBMonth,
	}
	for _, tier := range plan.Tiers() {
		terms := &event.TierPlan{Tier: uint32(tier)}
		for _, key := range plan.QuotaKeys() {
			t := book.Terms[tier][key]
			terms.Terms = append(terms.Terms, &event.Term{
				QuotaKey: uint32(key), Limit: t.Limit, PriceMicros: uint64(t.Price), Overage: t.Overage,
			})
		}
		b.Tiers = append(b.Tiers, terms)
	}
	return b
}

func validTier(t plan.Tier) bool { return t >= plan.Free && t <= plan.Admin }
