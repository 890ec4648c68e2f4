package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// bill is what a month's statement needs beside the counters, so that each total can be computed from the statement itself.
type bill struct {
	periods []period // ended ones, in order; the open one has the rest of the counters
	moves   moves
}

// period is an ended part of a month in which the account's limits and prices stayed the same.
type period struct {
	terms              uint64 // account.terms at its end
	end                int64
	tier               plan.Tier
	unused             bool // one message began and ended it, so that no request is of it
	used, paid, amount [plan.KeyCount]uint64
}

// moves are a month's changes of the ledger's balance, in micro-credits. Charges and refunds count in the month of their
// request.
type moves struct {
	granted, expired, charged, refunded uint64 // granted: also by payments
	adjusted                            int64  // by admins, and by reversals of payments
}

func (m moves) sum() int64 {
	return num.Int64(m.granted) + num.Int64(m.refunded) + m.adjusted - num.Int64(m.expired) - num.Int64(m.charged)
}

// maxPeriods bounds the changes of an account's tier in a month.
const maxPeriods = 100

// billing returns the bill to be changed.
func (c *counters) billing() *bill {
	if c.bill == nil {
		c.bill = &bill{}
	}
	return c.bill
}

func (c *counters) ended() []period {
	if c == nil || c.bill == nil {
		return nil
	}
	return c.bill.periods
}

func (c *counters) moved() moves {
	if c == nil || c.bill == nil {
		return moves{}
	}
	return c.bill.moves
}

// move counts a ledger entry, and returns the month that counts it. month is the month of its request, 0 without one.
func (a *account) move(e *event.LedgerEntry, month uint32) (counted uint32) {
	c, counted := &a.current, a.month
	left := false // the month has left the state
	if month != 0 && month != a.month {
		if left = month+1 != a.month; !left {
			c, counted = a.before(), month
		}
	}
	m := &c.billing().moves
	switch {
	case left || e.Type == event.LedgerType_LEDGER_ADJUSTMENT && month == 0,
		e.Type == event.LedgerType_LEDGER_REFUND, e.Type == event.LedgerType_LEDGER_REVERSAL:
		m.adjusted += e.AmountMicros
	case e.Type == event.LedgerType_LEDGER_GRANT, e.Type == event.LedgerType_LEDGER_PAYMENT:
		m.granted += num.Uint64(e.AmountMicros)
	case e.Type == event.LedgerType_LEDGER_EXPIRY:
		m.expired += num.Uint64(-e.AmountMicros)
	case e.Type == event.LedgerType_LEDGER_CHARGE:
		m.charged += num.Uint64(-e.AmountMicros)
	case e.Type == event.LedgerType_LEDGER_ADJUSTMENT:
		m.refunded += num.Uint64(e.AmountMicros)
	}
	return counted
}

// rest are the counters of a month without its ended periods.
func (c *counters) rest() (p period) {
	for key := range plan.KeyCount {
		p.used[key] = c.used[key]
		p.paid[key], _, p.amount[key], _ = c.charged(plan.QuotaKey(key))
	}
	for _, ended := range c.ended() {
		for key := range plan.KeyCount {
			p.used[key] -= min(p.used[key], ended.used[key])
			p.paid[key] -= min(p.paid[key], ended.paid[key])
			p.amount[key] -= min(p.amount[key], ended.amount[key])
		}
	}
	return p
}

func (p *period) empty() bool {
	return p.used == [plan.KeyCount]uint64{} && p.paid == p.used && p.amount == p.used
}

// endPeriod ends the open period of the current month at a time, before the account's limits or prices change. It is unused if the
// message that ends it has begun it too, by bringing a price book into force.
func (a *account) endPeriod(at int64, unused bool) {
	m := monthNumber(a.month)
	start := max(m.start, a.created)
	if ended := a.current.ended(); len(ended) > 0 {
		start = ended[len(ended)-1].end
	}
	p := a.current.rest()
	p.terms, p.tier, p.unused, p.end = a.terms, a.tier, unused, max(start, min(at, m.end))
	if p.end > start || !p.empty() {
		b := a.current.billing()
		b.periods = append(b.periods, p)
	}
}

// unbill removes a voided request from the ended period that counted it. For the open period the counters suffice.
func (c *counters) unbill(b *base, h *hold) {
	ended := c.ended()
	for i := range ended {
		if p := &ended[i]; h.terms <= p.terms && !p.unused {
			take(b, "used requests of a period", &p.used[h.key], 1)
			if h.charge == event.ChargeSource_CHARGE_CREDITS {
				take(b, "paid requests of a period", &p.paid[h.key], 1)
				take(b, "spent credits of a period", &p.amount[h.key], h.cost)
			}
			return
		}
	}
}

// of is the position of the price book under which an account with these terms is charged.
func (l *prices) of(terms uint64) int {
	i := len(l.list) - 1
	for i > 0 && l.list[i].sequence > terms {
		i--
	}
	return i
}

// periods splits a month at each change of the account's limits and prices.
func (l *prices) periods(a *account, m month, c *counters, tier plan.Tier, terms uint64) []*event.StatementPeriod {
	if len(l.list) == 0 {
		return nil
	}
	ended, open := c.ended(), c.rest()
	open.tier = tier
	first := terms
	if len(ended) > 0 {
		first = ended[0].terms
	}
	s := splitter{prices: l, start: max(m.start, a.created)}
	s.book = min(l.position(s.start), l.of(first))
	for i := range ended {
		s.unused(l.of(ended[i].terms), ended[i].tier, ended[i].end)
		s.cut(&ended[i], ended[i].end)
	}
	s.unused(l.of(terms), tier, m.end)
	for s.book < len(l.list)-1 && l.list[s.book+1].fromMillis < m.end {
		s.cut(&open, l.list[s.book+1].fromMillis)
		s.book, open = s.book+1, period{tier: tier}
	}
	s.cut(&open, m.end)
	s.charge(m, a.erased)
	return s.list
}

// splitter makes the periods of a statement.
type splitter struct {
	*prices
	list  []*event.StatementPeriod
	start int64 // of the next period
	book  int   // in force
	terms [plan.KeyCount]plan.Term
}

// unused cuts periods of price books that were replaced before the account made a request.
func (s *splitter) unused(until int, tier plan.Tier, end int64) {
	for s.book < until {
		s.cut(&period{tier: tier}, min(s.prices.list[s.book+1].fromMillis, end))
		s.book++
	}
}

// cut ends a period at a time. It continues the previous one if that has the same plan, limits and prices.
func (s *splitter) cut(p *period, end int64) {
	end = max(end, s.start)
	if end == s.start && p.empty() {
		return
	}
	book := s.prices.list[s.book].book
	of := &book.Plans[p.tier]
	terms := of.Terms
	last := len(s.list) - 1
	if last < 0 || s.list[last].Tier != uint32(p.tier) || s.terms != terms || s.list[last].FeeCents != of.FeeCents {
		next := &event.StatementPeriod{StartMs: s.start, Tier: uint32(p.tier), Plan: s.given(p.tier), FeeCents: of.FeeCents}
		for _, key := range book.QuotaKeys() {
			next.Lines = append(next.Lines, &event.StatementLine{
				QuotaKey: uint32(key), Limit: terms[key].Limit, Overage: terms[key].Overage, PriceMicros: num.Uint64(terms[key].Price),
			})
		}
		s.list, s.terms = append(s.list, next), terms
		last++
	}
	s.list[last].EndMs, s.start = end, end
	for _, line := range s.list[last].Lines {
		line.Used += p.used[line.QuotaKey]
		line.Paid += p.paid[line.QuotaKey]
		line.AmountMicros += p.amount[line.QuotaKey]
	}
}

// charge charges the plan's fee in each period: for its seconds, until the account is erased, rounded down once.
func (s *splitter) charge(m month, erased int64) {
	for _, p := range s.list {
		end := p.EndMs
		if erased != 0 {
			end = max(p.StartMs, min(end, erased))
		}
		p.FeeSeconds = num.Uint64(end/1000 - p.StartMs/1000)
		p.FeeAmountCents = product(p.FeeCents, p.FeeSeconds).over(m.millis() / 1000)
	}
}

// creditsOf are the changes of the ledger's balance in the current or the previous month.
func (a *account) creditsOf(m month, spent uint64) *event.StatementCredits {
	closing, moved := a.settled, a.current.moved()
	if m.number != a.month {
		closing, moved = closing-moved.sum(), a.previous.moved()
	}
	return &event.StatementCredits{
		OpeningMicros: closing - moved.sum(), GrantedMicros: moved.granted, ExpiredMicros: moved.expired, AdjustedMicros: moved.adjusted,
		ChargedMicros: moved.charged, RefundedMicros: moved.refunded, ClosingMicros: closing,
		PendingMicros: num.Int64(spent) - num.Int64(moved.charged) + num.Int64(moved.refunded),
	}
}

// state adds the bill to the state of its month.
func (b *bill) state(s *event.MonthState) {
	if b == nil {
		return
	}
	for i := range b.periods {
		p := &b.periods[i]
		of := &event.PeriodState{Terms: p.terms, EndMs: p.end, Tier: uint32(p.tier), Unused: p.unused}
		for key := range plan.KeyCount {
			if p.used[key]|p.paid[key]|p.amount[key] != 0 {
				of.Usage = append(of.Usage, &event.KeyUsage{QuotaKey: uint32(key), Used: p.used[key], Overage: p.paid[key], SpentMicros: p.amount[key]})
			}
		}
		s.Periods = append(s.Periods, of)
	}
	s.GrantedMicros, s.ExpiredMicros, s.AdjustedMicros = b.moves.granted, b.moves.expired, b.moves.adjusted
	s.ChargedMicros, s.RefundedMicros = b.moves.charged, b.moves.refunded
}

func restoreBill(s *event.MonthState) *bill {
	b := &bill{moves: moves{
		granted: s.GrantedMicros, expired: s.ExpiredMicros, adjusted: s.AdjustedMicros, charged: s.ChargedMicros, refunded: s.RefundedMicros,
	}}
	for _, of := range s.Periods {
		p := period{terms: of.Terms, end: of.EndMs, tier: plan.Tier(of.Tier), unused: of.Unused}
		for _, u := range of.Usage {
			if key := plan.QuotaKey(u.QuotaKey); key.Valid() {
				p.used[key], p.paid[key], p.amount[key] = u.Used, u.Overage, u.SpentMicros
			}
		}
		b.periods = append(b.periods, p)
	}
	if len(b.periods) == 0 && b.moves == (moves{}) {
		return nil
	}
	return b
}
