package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// A spending cap bounds the credits that requests take in a period. A price counts when its request is admitted, so that
// requests in flight can't pass a cap together, and a refund counts in the period of the charge.

// spendingCap is the maximum to take in a period. The zero value is no cap.
type spendingCap struct {
	period event.CapPeriod
	amount uint64
}

// spending is the amount taken from the credits, minus refunds.
type spending struct {
	day   uint32 // since 1970
	today uint64 // on that day
	total uint64
}

func capOf(c *event.SpendingCap) spendingCap {
	return spendingCap{period: c.GetPeriod(), amount: c.GetAmountMicros()}
}

func (c spendingCap) event() *event.SpendingCap {
	if c.period == event.CapPeriod_CAP_NONE {
		return nil
	}
	return &event.SpendingCap{Period: c.period, AmountMicros: c.amount}
}

func (c spendingCap) valid() bool {
	switch c.period {
	case event.CapPeriod_CAP_NONE:
		return c.amount == 0
	case event.CapPeriod_CAP_DAY, event.CapPeriod_CAP_MONTH, event.CapPeriod_CAP_TOTAL:
		return c.amount <= maxBalance
	}
	return false
}

// in is the part of the spending, and of the month's spending, that counts towards the cap.
func (c spendingCap) in(s spending, month uint64, day uint32) uint64 {
	switch c.period {
	case event.CapPeriod_CAP_DAY:
		if s.day != day {
			return 0
		}
		return s.today
	case event.CapPeriod_CAP_MONTH:
		return month
	}
	return s.total
}

// status is the cap as shown to its owner, nil without a cap.
func (c spendingCap) status(s spending, month uint64, now int64) *event.CapStatus {
	if c.period == event.CapPeriod_CAP_NONE {
		return nil
	}
	day := max(s.day, num.Uint32(now/dayMillis))
	return &event.CapStatus{Cap: c.event(), SpentMicros: c.in(s, month, day), ResetMs: c.ends(day, monthOf(now))}
}

// ends is the end of the period; 0: never.
func (c spendingCap) ends(day uint32, m month) int64 {
	switch c.period {
	case event.CapPeriod_CAP_DAY:
		return (int64(day) + 1) * dayMillis
	case event.CapPeriod_CAP_MONTH:
		return m.end
	}
	return 0
}

// add counts a price on a day: see capDay.
func (s *spending) add(day uint32, price uint64) {
	if s.day < day {
		s.day, s.today = day, 0
	}
	s.today += price
	s.total += price
}

// take subtracts a price added on a day.
func (s *spending) take(b *base, day uint32, price uint64) {
	if s.day == day {
		take(b, "credits spent in a day", &s.today, price)
	}
	take(b, "credits spent in all", &s.total, price)
}

func (s spending) state() *event.SpendingState {
	if s == (spending{}) {
		return nil
	}
	return &event.SpendingState{Day: s.day, TodayMicros: s.today, TotalMicros: s.total}
}

func restoreSpending(s *event.SpendingState) spending {
	return spending{day: s.GetDay(), today: s.GetTodayMicros(), total: s.GetTotalMicros()}
}

func (c *counters) spentSum() (sum uint64) {
	if c.charges == nil {
		return 0
	}
	for _, s := range c.charges.spent {
		sum += s
	}
	return sum
}

func (l *keyLineage) spentSum() (sum uint64) {
	for _, s := range l.spent {
		sum += s
	}
	return sum
}

// capped is a spending cap with the spending that counts towards it.
type capped struct {
	spendingCap
	spent   uint64
	lineage *keyLineage // owner of the cap; nil: the account
}

// caps returns the caps that apply to a price, the key's first. The account must be in the present month.
func (a *account) caps(l *keyLineage, day uint32) (list [2]capped) {
	if l != nil && l.cap.period != event.CapPeriod_CAP_NONE {
		l.roll(a.month)
		list[0] = capped{l.cap, l.cap.in(l.spending, l.spentSum(), day), l}
	}
	if c := a.cap(); c.period != event.CapPeriod_CAP_NONE {
		list[1] = capped{c, c.in(a.spending, a.current.spentSum(), day), nil}
	}
	return list
}

// passed returns the first cap that a price would exceed.
func (a *account) passed(l *keyLineage, day uint32, price uint64) (capped, bool) {
	if price == 0 {
		return capped{}, false
	}
	for _, c := range a.caps(l, day) {
		if c.period != event.CapPeriod_CAP_NONE && c.spent+price > c.amount {
			return c, true
		}
	}
	return capped{}, false
}

// keepsCaps reports whether a price exceeds no cap.
func (a *account) keepsCaps(b *base, l *keyLineage, price uint64) bool {
	_, passed := a.passed(l, a.capDay(b), price)
	return !passed
}

// capDay is the day whose cap applies to a price: as dayOf, or a later one if that had begun before the time was turned back.
func (a *account) capDay(b *base) uint32 { return max(a.spending.day, a.dayOf(b)) }

// capRefused refuses a request whose price would exceed a cap.
func (a *account) capRefused(b *base, l *keyLineage, h *hold, term plan.Term, v *event.Verdict) bool {
	price := num.Uint64(term.Price)
	day := a.capDay(b)
	c, passed := a.passed(l, day, price)
	if !passed {
		return false
	}
	v.Decision, v.KeyCap, v.Cap = event.Decision_SPENDING_CAP_REACHED, c.lineage != nil, c.event()
	if end := c.ends(day, a.monthOf(b)); end != 0 && price <= c.amount {
		v.RetryAfterSeconds = secondsUntil(end, b.time)
	}
	setHeld(v, a.capHeld(c, day, h.key, term))
	return true
}

// capHeld reports whether open holds may undo the refusal: by freeing quota, or by reducing what counts towards the cap.
func (a *account) capHeld(c capped, day uint32, key plan.QuotaKey, term plan.Term) bool {
	if a.open.count == 0 {
		return false
	}
	if num.Int64(a.current.used[key])-int64(a.openBy[key]) < term.Limit {
		return true
	}
	counts := func(lineage, in, month uint32) bool {
		return (c.lineage == nil || c.lineage.number == lineage) &&
			(c.period != event.CapPeriod_CAP_DAY || in == day) && (c.period != event.CapPeriod_CAP_MONTH || month == a.month)
	}
	back := uint64(0)
	for h := a.open.head; h != nil; h = h.after() {
		if counts(h.lineage, h.day, h.month) {
			back += h.cost
		}
	}
	if a.latePaid > 0 {
		for h := a.closed.head; h != nil; h = h.after() {
			if h.movable && counts(h.lineage, h.day, h.month) {
				back += h.cost
			}
		}
	}
	for _, l := range a.paid {
		for _, p := range l.items {
			if a.openBy[l.key] > 0 && counts(p.lineage, p.day, l.month) {
				back += p.cost
			}
		}
	}
	return c.spent-min(back, c.spent)+num.Uint64(term.Price) <= c.amount
}

// spend records a hold's payment for the caps and the counters of its key.
func (c *credits) spend(a *account, h *hold, price uint64) {
	h.day = a.dayOf(c.base)
	l, day := a.lineageOf(h.lineage), a.capDay(c.base) // for both, so that the key's cap is compared on the same day
	var before [2]capped
	if a.alerts != nil {
		before = a.caps(l, day)
	}
	a.spending.add(day, price)
	if l != nil {
		l.roll(a.month)
		l.spending.add(day, price)
		l.overage[h.key]++
		l.spent[h.key] += price
	}
	if a.alerts != nil {
		c.alerts.notifyCaps(a, before, day, price)
	}
}

// notifyCaps notifies webhooks of the shares of caps reached by a price.
func (n *notifier) notifyCaps(a *account, before [2]capped, day uint32, price uint64) {
	for _, c := range before {
		if c.period == event.CapPeriod_CAP_NONE {
			continue
		}
		of := limited{kind: event.AlertType_ALERT_CAP, keyCap: c.lineage != nil, period: c.period}
		g := growth{before: c.spent, after: c.spent + price, limit: c.amount, until: c.ends(day, monthNumber(a.month))}
		if c.lineage != nil {
			of.apiKey, g.apiKey = c.lineage.number, a.keys.newest(c.lineage)
		}
		switch c.period {
		case event.CapPeriod_CAP_DAY:
			of.from = int64(day) * dayMillis
		case event.CapPeriod_CAP_MONTH:
			of.from = monthNumber(a.month).start
		}
		n.grown(a, of, g)
	}
}

// payment is where a paid request was counted.
type payment struct {
	key     plan.QuotaKey
	month   uint32
	lineage uint32
	day     uint32
	cost    uint64
}

func (h *hold) payment() payment { return payment{h.key, h.month, h.lineage, h.day, h.cost} }

// unspend subtracts a payment from the caps and the counters of its key.
func (a *account) unspend(b *base, p payment) {
	l := a.lineageOf(p.lineage)
	a.spending.take(b, p.day, p.cost)
	if l != nil {
		l.spending.take(b, p.day, p.cost)
	}
	if l != nil && l.month == p.month {
		take(b, "overage requests of a key", &l.overage[p.key], 1)
		take(b, "spent credits of a key", &l.spent[p.key], p.cost)
	}
}

// unuse subtracts a request from the counters of its key.
func (a *account) unuse(b *base, h *hold) {
	if l := a.lineageOf(h.lineage); l != nil && l.month == h.month {
		take(b, "used requests of a key", &l.used[h.key], 1)
	}
}
