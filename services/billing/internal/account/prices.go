package account

import (
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
)

// prices are the price books of a journal, each with the time it came into force.
type prices struct {
	*base
	list     []bookFrom
	upcoming []bookFrom // in the order of their times
	current  *plan.Book // the newest in force; nil before the first
	terms    uint64     // sequence of the last message that changed prices or rules

	substitute int64                        // time from which a substitute replaces the journal's books; 0: never
	refused    map[event.RequestID]struct{} // requests that the journal's books have refused; nil without a substitute
}

type bookFrom struct {
	fromMillis int64
	sequence   uint64     // of the message from which on it is in force; 0: not yet
	book       *plan.Book // nil for one that is withdrawn
	event      *event.PriceBook
}

func (b *bookFrom) state() *event.BookState {
	return &event.BookState{FromMs: b.fromMillis, Book: b.event, Sequence: b.sequence}
}

// states returns the books that came into force, and those that have not yet.
func (l *prices) states() (books, upcoming []*event.BookState) {
	for i := range l.list {
		books = append(books, l.list[i].state())
	}
	for i := range l.upcoming { // also withdrawn ones
		upcoming = append(upcoming, l.upcoming[i].state())
	}
	return books, upcoming
}

func (l *prices) restore(books, upcoming []*event.BookState) {
	for _, b := range books {
		l.list = append(l.list, bookFrom{fromMillis: b.FromMs, sequence: b.Sequence, book: pricebook.Of(b.Book), event: b.Book})
		l.current = l.list[len(l.list)-1].book
	}
	for _, b := range upcoming {
		of := bookFrom{fromMillis: b.FromMs, event: b.Book}
		if !b.Book.Withdrawn {
			of.book = pricebook.Of(b.Book)
		}
		l.upcoming = append(l.upcoming, of)
	}
}

// due is when the next book comes into force; never if there is none.
func (l *prices) due() int64 {
	if len(l.upcoming) == 0 {
		return never
	}
	return l.upcoming[0].fromMillis
}

// next brings the first of the upcoming books into force. It drops a withdrawn one and returns false.
func (l *prices) next() bool {
	first := l.upcoming[0]
	l.upcoming = slices.Delete(l.upcoming, 0, 1)
	if first.book == nil {
		return false
	}
	l.bringIntoForce(first)
	return true
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

// BooksIn returns the price books in force in a month, YYYY-MM, oldest first. What they point to must not be changed.
func (l *prices) BooksIn(period string) []*event.BookState {
	m, ok := parsePeriod(period)
	if !ok || len(l.list) == 0 {
		return nil
	}
	var list []*event.BookState
	for i := l.position(m.start); i < len(l.list) && (i == 0 || l.list[i].fromMillis < m.end); i++ {
		list = append(list, l.list[i].state())
	}
	return list
}

// roll moves the account into a month. It resets the counters, keeps the previous month's, brings in a tier that changes with the
// month, and calls closed with the statement of each older month.
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
		if a.nextTier != 0 {
			a.tier, a.nextTier = a.nextTier, 0
		}
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
	for _, p := range s.Periods {
		s.FeesCents += p.FeeAmountCents
	}
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
	of := &book.Plans[tier]
	s := &event.StatementAnswer{
		Period: m.period(), Tier: uint32(tier), Plan: l.given(tier),
		Usage: c.usage(of, book.QuotaKeys()), SpentMicros: c.spentSum(),
		StorageFreeBytes: of.FreeStorageBytes, StorageCentsPerGbMonth: of.StorageCentsPerGBMonth,
	}
	s.StorageAverageBytes, s.StorageBilledBytes, s.StorageOverageCents = storageBill(c.byteMillis, m, of)
	s.StorageByteMsHigh, s.StorageByteMsLow = c.byteMillis.high, c.byteMillis.low
	s.StorageByDay, s.StorageDays = true, c.days.list(m, min(a.storageSince, m.end))
	return s
}

// given is the name of a tier's plan for messages: empty for a built-in tier, whose name everyone knows.
func (l *prices) given(tier plan.Tier) string {
	if tier.BuiltIn() || !tier.Valid() || l.current == nil {
		return ""
	}
	return l.current.Plans[tier].Name
}

// Prices returns the current price book as published, nil before the first one. It must not be changed.
func (l *prices) Prices() *event.PriceBook {
	if len(l.list) == 0 {
		return nil
	}
	return l.list[len(l.list)-1].event
}

// Books are all price books. What they point to must not be changed.
func (l *prices) Books() *event.PriceList {
	list := &event.PriceList{Rules: l.rules}
	var upcoming []*event.BookState
	list.Books, upcoming = l.states()
	for _, b := range upcoming {
		if b.Book.Withdrawn {
			list.Withdrawn = append(list.Withdrawn, b.Book.Id)
		} else {
			list.Upcoming = append(list.Upcoming, b)
		}
	}
	return list
}
