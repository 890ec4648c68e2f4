package account

// The fold's time never goes back with a source's clock. The journal's own clock is different: on one server of the cluster,
// for example, it can be ahead and come back. If the fold's time waited for the clock to catch up, limits of failures, holds,
// idempotency keys and grants would all expire late.

// backMillis is how far the fold's time may be ahead of the journal's clock. Stamps may be stampMillis ahead.
const backMillis = 2 * stampMillis

// follow turns the fold's time back to the journal's clock, if that has come back. A development clock is ahead by the largest
// offset of any price book.
func (f *Fold) follow(stored int64) {
	if clock := stored + f.offset; f.time-clock > backMillis {
		f.turnBack(clock)
	}
}

// turnBack sets the time back. Later timestamps become this one, so that no window lasts longer than its length from now on. Months
// that have begun stay begun, and what has expired stays expired.
func (f *Fold) turnBack(to int64) {
	f.time = to
	f.month = f.month.at(to)
	f.holds.turnBack()
	f.principals.turnBack()
	f.kept.turnBack(to)
	f.topUps.schedule() // after the accounts: their retry times have moved
	f.sources.turnBack(to)
}

func (s *holds) turnBack() {
	for h := s.open.head; h != nil; h = h.links[linkGlobal].next {
		s.earlier(h.principal, &h.time)
	}
	for h := s.closed.head; h != nil; h = h.links[linkGlobal].next {
		s.earlier(h.principal, &h.closedAt)
		s.earlier(h.principal, &h.time)
	}
}

func (s *principals) turnBack() {
	for i := range s.admitted.waiting() {
		at := &s.admitted.waiting()[i]
		at.time = min(at.time, s.time)
		s.allEarlier(&at.network.principal, at.network.admitted)
	}
	for i := range s.failures.waiting() {
		at := &s.failures.waiting()[i]
		at.time = min(at.time, s.time)
		s.allEarlier(at.principal, at.principal.failures)
	}
	for i := range s.late.waiting() {
		at := &s.late.waiting()[i]
		at.time = min(at.time, s.time)
		for j := len(at.principal.late) - 1; j >= 0 && at.principal.late[j].time > s.time; j-- {
			s.earlier(at.principal, &at.principal.late[j].time)
		}
	}
	for _, a := range s.accounts { // the order has no effect
		s.turnAccountBack(a)
	}
}

func (s *principals) turnAccountBack(a *account) {
	s.earlierBy(&a.principal, &a.deletes, DeletionMillis)
	for _, p := range a.purchases.list {
		s.earlier(&a.principal, &p.asOf)
	}
	for i, sub := range a.subscriptions {
		if sub.AsOfMs > s.time { // a new one, since answers point to the old one
			a.subscriptions[i] = subscriptionAt(sub, s.time)
			s.touch(&a.principal)
		}
	}
	if t := a.topUp; t != nil {
		s.earlier(&a.principal, &t.DueMs)
		s.earlierBy(&a.principal, &t.RetryMs, topUpRetryMillis)
	}
	for _, g := range a.grants {
		if g.over && g.expires > s.time && !g.early {
			g.early = true
			s.touch(&a.principal)
		}
	}
}

func (b *base) earlier(p *principal, millis *int64) {
	if *millis > b.time {
		*millis = b.time
		b.touch(p)
	}
}

// earlierBy is earlier for the end of a window of that length.
func (b *base) earlierBy(p *principal, millis *int64, length int64) {
	if *millis > b.time+length {
		*millis = b.time + length
		b.touch(p)
	}
}

// allEarlier is earlier for an ascending list.
func (b *base) allEarlier(p *principal, times []int64) {
	for i := len(times) - 1; i >= 0 && times[i] > b.time; i-- {
		b.earlier(p, &times[i])
	}
}

// isClosed reports whether a month's statement is final.
func (b *base) isClosed(m month) bool { return b.peak >= m.end+CloseMillis }

// nextClose is the time when the next month is closed.
func (b *base) nextClose() int64 {
	m := b.month.at(b.peak)
	if at := m.start + CloseMillis; b.peak < at {
		return at
	}
	return m.end + CloseMillis
}

// LastClosed is the newest month whose statements are final, as YYYY-MM, while the state has them; empty if it does not.
func (b *base) LastClosed() string {
	if m := monthNumber(b.month.number - 1); b.isClosed(m) {
		return m.period()
	}
	return ""
}
