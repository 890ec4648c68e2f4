package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// prices are the price books of a journal, each with the time it came into force.
type prices struct {
	list    []bookFrom
	current *plan.Book // the newest; nil before the first
	terms   uint64     // sequence of the last message that changed prices or rules
}

type bookFrom struct {
	fromMillis int64
	sequence   uint64 // of its message
	book       *plan.Book
	event      *event.PriceBook
}

// bookAt is the price book in force at that time, or the oldest one for earlier times.
func (l *prices) bookAt(millis int64) *plan.Book {
	if len(l.list) == 0 {
		return &plan.Book{}
	}
	return l.list[l.position(millis)].book
}

// position is the position of bookAt in a list that is not empty.
func (l *prices) position(millis int64) int {
	i := len(l.list) - 1
	for i > 0 && l.list[i].fromMillis > millis {
		i--
	}
	return i
}

// roll moves the account into a month. It resets the counters, keeps the previous month's, and calls closed with the statement
// of each older month.
func (l *prices) roll(a *account, to month, closed func(*event.StatementAnswer)) {
	created := monthOf(a.created).number
	for a.month < to.number {
		ended := monthNumber(a.month)
		a.integrate(ended.end)
		if a.month > created {
			s := l.statement(a, monthNumber(a.month-1))
			s.Closed = true
			closed(s)
		}
		a.previous, a.tierThen, a.termsThen = nil, a.tier, a.terms
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

// statement is the statement of the current or the previous month, except for its Closed field.
func (l *prices) statement(a *account, m month) *event.StatementAnswer {
	s := l.totals(a, m)
	c, tier, terms := a.countersOf(m)
	s.Periods, s.Credits = l.periods(a, m, c, tier, terms), a.creditsOf(m, s.SpentMicros)
	return s
}

// countersOf are the counters of the current or the previous month, with tier and terms at its end.
func (a *account) countersOf(m month) (*counters, plan.Tier, uint64) {
	switch {
	case m.number == a.month:
		return &a.current, a.tier, a.terms
	case a.previous == nil:
		return &counters{}, a.tierThen, a.termsThen
	}
	return a.previous, a.tierThen, a.termsThen
}

// totals is the statement without periods and credits.
func (l *prices) totals(a *account, m month) *event.StatementAnswer {
	c, tier, _ := a.countersOf(m)
	book := l.bookAt(m.end - 1)
	s := &event.StatementAnswer{
		Period: m.period(), Tier: uint32(tier),
		Usage: c.usage(tier, book), SpentMicros: c.spentSum(),
		StorageFreeBytes: book.FreeStorageBytes, StorageCentsPerGbMonth: book.StorageCentsPerGBMonth,
	}
	s.StorageAverageBytes, s.StorageBilledBytes, s.StorageOverageCents = storageBill(c.byteMillis, m, book)
	s.StorageByteMsHigh, s.StorageByteMsLow = c.byteMillis.high, c.byteMillis.low
	s.StorageByDay, s.StorageDays = true, c.days.list(m, min(a.storageSince, m.end))
	return s
}

// BookOf converts a published price book. It ignores unknown tiers and quota keys. A price above every possible balance is
// reduced to one micro-credit above it.
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
					Limit: term.Limit, Price: plan.Micros(min(term.PriceMicros, maxBalance+1)), Overage: term.Overage,
				}
			}
		}
	}
	return book
}

// PriceEvent is a price book to publish, without its time.
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
