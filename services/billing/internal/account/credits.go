package account

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
)

// grant is an amount of credits given to an account.
type grant struct {
	id      uint64 // sequence << 12 | position of the command
	amount  uint64
	left    uint64
	expires int64 // 0: never
	created int64
	reason  string
	account *account
	refs    int  // holds that took from it and may refund to it
	over    bool // expired
	early   bool // over by a clock that was ahead and has come back: expires is in the future again
	heap    int  // index in the expiry heap
}

// compareGrants is the order of spending: the soonest to expire first, those that never expire last, and the older of equal
// ones (docs/api.md, Money).
func compareGrants(a, b *grant) int {
	return cmp.Or(cmp.Compare(a.expiryOrder(), b.expiryOrder()), cmp.Compare(a.id, b.id))
}

func (g *grant) expiryOrder() int64 {
	if g.expires == 0 {
		return math.MaxInt64
	}
	return g.expires
}

// expiryHeap holds the grants that will expire, the next one first. Account and grant ids break ties, so that every replica has
// the same order.
type expiryHeap []*grant

func (h expiryHeap) Len() int { return len(h) }
func (h expiryHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.account.id, b.account.id), cmp.Compare(a.id, b.id)) < 0
}

func (h expiryHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}

func (h *expiryHeap) Push(x any) {
	g := x.(*grant)
	g.heap = len(*h)
	*h = append(*h, g)
}

func (h *expiryHeap) Pop() any {
	last := len(*h) - 1
	g := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return g
}

// credits moves the credits of accounts: it spends, refunds and expires grants, and writes the ledger.
type credits struct {
	*base
	alerts   *notifier
	expiries expiryHeap
	ordinal  uint32 // of this message's next ledger entry
}

// due is when the next grant expires; never if there is none.
func (c *credits) due() int64 {
	if len(c.expiries) == 0 {
		return never
	}
	return c.expiries[0].expires
}

// addGrant inserts a grant in the order of spending.
func (c *credits) addGrant(g *grant) {
	a := g.account
	i, _ := slices.BinarySearchFunc(a.grants, g, compareGrants)
	a.grants = slices.Insert(a.grants, i, g)
	if g.expires != 0 && !g.over {
		heap.Push(&c.expiries, g)
	}
}

// tidy forgets an empty grant that no hold can refund to.
func (c *credits) tidy(g *grant) {
	if g.left > 0 || g.refs > 0 {
		return
	}
	a := g.account
	if i, found := slices.BinarySearchFunc(a.grants, g, compareGrants); found {
		a.grants = slices.Delete(a.grants, i, i+1)
	}
	if g.expires != 0 && !g.over {
		heap.Remove(&c.expiries, g.heap)
		g.over = true
	}
}

// pay takes a price from the grants and records in the hold which of them paid. The account must have the price.
func (c *credits) pay(a *account, h *hold, price uint64) {
	h.charge, h.cost = event.ChargeSource_CHARGE_CREDITS, price
	take(c.base, "available credits", &a.available, num.Int64(price))
	for _, g := range a.grants {
		if price == 0 {
			break
		}
		part := min(g.left, price)
		if part == 0 || g.over {
			continue
		}
		g.left -= part
		g.refs++
		price -= part
		h.use = append(h.use, grantUse{g, part})
	}
	if price > 0 {
		c.fault("the grants are %d short of the available credits", price)
	}
}

// refund returns the price of a hold to the grants that paid it. In a grant expired meanwhile it expires at once. The ledger
// must not have charged the price, or must have refunded it.
func (c *credits) refund(a *account, h *hold, at int64) {
	c.refundUses(a, h.use, at)
	clear(h.use)
	h.use = h.use[:0]
}

func (c *credits) refundUses(a *account, use []grantUse, at int64) {
	for _, u := range use {
		u.grant.left += u.amount
		a.available += num.Int64(u.amount)
		if u.grant.over {
			c.expireRest(u.grant, at)
		}
	}
	c.releaseUses(use)
	c.repay(a)
}

// release makes the hold's payment final: it can't be refunded any more.
func (c *credits) release(h *hold) {
	c.releaseUses(h.use)
	clear(h.use)
	h.use = h.use[:0]
}

func (c *credits) releaseUses(use []grantUse) {
	for _, u := range use {
		take(c.base, "holds of a grant", &u.grant.refs, 1)
		c.tidy(u.grant)
	}
}

// expire ends the next grant in the heap.
func (f *Fold) expire(g *grant) {
	f.touch(&g.account.principal)
	f.rollTo(g.account, f.month.at(g.expires)) // whose statement has the expiry
	heap.Pop(&f.credits.expiries)
	g.over = true
	before := g.account.available
	f.credits.expireRest(g, g.expires)
	f.alerts.lowered(g.account, before, g.expires)
	f.credits.tidy(g)
}

func (c *credits) expireRest(g *grant, at int64) {
	if g.left == 0 {
		return
	}
	rest := num.Int64(g.left)
	g.left = 0
	take(c.base, "available credits", &g.account.available, rest)
	c.enter(g.account, 0, &event.LedgerEntry{
		TimeMs: at, Type: event.LedgerType_LEDGER_EXPIRY, AmountMicros: -rest, Reason: g.reason,
	})
}

// adjust removes credits, in the order of spending. The account must have the amount.
func (c *credits) adjust(a *account, amount uint64) {
	take(c.base, "available credits", &a.available, num.Int64(amount))
	for _, g := range slices.Clone(a.grants) {
		if amount == 0 {
			break
		}
		if g.over {
			continue
		}
		part := min(g.left, amount)
		g.left -= part
		amount -= part
		c.tidy(g)
	}
	if amount > 0 {
		c.fault("the grants are %d short of the available credits", amount)
	}
}

// grant adds credits, or removes some if the amount is negative.
func (c *credits) grant(a *account, g *event.Grant, actor string, index int) event.CommandStatus {
	amount := g.GetAmountMicros()
	if amount == 0 || amount > maxBalance || amount < -maxBalance || index >= 1<<grantIndexBits {
		return event.CommandStatus_COMMAND_INVALID
	}
	if amount < 0 {
		if a.available < -amount {
			return event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS
		}
		c.remove(a, uint64(-amount), &event.LedgerEntry{
			TimeMs: c.time, Type: event.LedgerType_LEDGER_ADJUSTMENT, AmountMicros: amount, Reason: g.Reason, Actor: actor,
		})
		return event.CommandStatus_COMMAND_OK
	}
	expired := g.ExpiresMs != 0 && g.ExpiresMs <= c.time
	if expired || !c.give(a, amount, g.ExpiresMs, index, &event.LedgerEntry{
		TimeMs: c.time, Type: event.LedgerType_LEDGER_GRANT, AmountMicros: amount, Reason: g.Reason, Actor: actor,
	}) {
		return event.CommandStatus_COMMAND_INVALID
	}
	return event.CommandStatus_COMMAND_OK
}

// give adds credits by a grant, unless the account has too many grants. Its debts are paid from them.
func (c *credits) give(a *account, amount, expires int64, index int, e *event.LedgerEntry) bool {
	if len(a.grants) >= maxGrants || !c.fits(a, amount, index) {
		return false
	}
	c.newGrant(a, amount, expires, index, e)
	return true
}

// givePaid adds credits that were paid for, which never expire. At the limit of grants, they are added to the last one if that never
// expires either.
func (c *credits) givePaid(a *account, amount int64, index int, e *event.LedgerEntry) bool {
	if !c.fits(a, amount, index) {
		return false
	}
	if n := len(a.grants); n >= maxGrants && a.grants[n-1].expires == 0 {
		last := a.grants[n-1]
		last.amount, last.left = last.amount+num.Uint64(amount), last.left+num.Uint64(amount)
		c.added(a, amount, e)
		return true
	}
	c.newGrant(a, amount, 0, index, e)
	return true
}

// fits reports whether credits may be added by the command at an index of its batch.
func (c *credits) fits(a *account, amount int64, index int) bool {
	return index < 1<<grantIndexBits && a.settled+amount <= maxBalance
}

func (c *credits) newGrant(a *account, amount, expires int64, index int, e *event.LedgerEntry) {
	c.addGrant(&grant{
		id: c.sequence<<grantIndexBits | num.Uint64(index), amount: num.Uint64(amount), left: num.Uint64(amount),
		expires: expires, created: c.time, reason: e.Reason, account: a,
	})
	c.added(a, amount, e)
}

// added counts credits that are in a grant.
func (c *credits) added(a *account, amount int64, e *event.LedgerEntry) {
	a.available += amount
	c.enter(a, 0, e)
	c.repay(a)
	a.lifted()
}

// remove takes credits. The account owes what it does not have.
func (c *credits) remove(a *account, amount uint64, e *event.LedgerEntry) {
	before := a.available
	part := min(amount, num.Uint64(a.available))
	c.adjust(a, part)
	a.owed += num.Int64(amount - part)
	c.alerts.lowered(a, before, c.time)
	c.enter(a, 0, e)
}

// repay pays what the account owes from its credits.
func (c *credits) repay(a *account) {
	if part := min(a.owed, a.available); part > 0 {
		a.owed -= part
		c.adjust(a, uint64(part))
	}
}

// enter appends an entry to the account's ledger and moves its balance. It fills in the id, account and balance; the caller
// sets the rest. SettledMs defaults to TimeMs. month is the month that counts the entry's request, 0 without one.
func (c *credits) enter(a *account, month uint32, e *event.LedgerEntry) {
	if a.settled+a.owed < -e.AmountMicros {
		c.fault("%d settled credits, %d are taken", a.settled, -e.AmountMicros)
		return
	}
	if e.SettledMs == 0 {
		e.SettledMs = e.TimeMs
	}
	c.linkLedger(a, a.move(e, month), e)
	a.settled += e.AmountMicros
	a.entries++
	e.Id = string(ledgerID(c.sequence, c.ordinal))
	c.ordinal++
	e.Account = a.id
	e.BalanceMicros = a.settled
	c.effects.Ledger = append(c.effects.Ledger, e)
}

// LedgerOrder is the position of an entry in the ledger. A charge, and a refund because of a failure, stands where its request was
// admitted; any other entry, an admin's refund too, stands where it was made. Strings compare as positions do. The entry's id must
// be valid.
func LedgerOrder(e *event.LedgerEntry) string {
	order := make([]byte, 0, 2*LedgerIDChars)
	order = event.AppendBase62(order, LedgerSequence(e.Id)-e.AdmittedBefore, ledgerDigits)
	order = event.AppendBase62(order, e.AdmittedIndex, ordinalDigits)
	return string(append(order, e.Id...))
}

// ledgerID encodes the position of an entry. Ids sort as the entries do.
func ledgerID(sequence uint64, ordinal uint32) []byte {
	id := event.AppendBase62(make([]byte, 0, LedgerIDChars), sequence, ledgerDigits)
	return event.AppendBase62(id, uint64(ordinal), ordinalDigits)
}

// Digits in base62 of the two numbers of a ledger id, of 64 and 32 bits.
const (
	ledgerDigits  = 11
	ordinalDigits = 6

	// LedgerIDChars is the length of a ledger entry's id.
	LedgerIDChars = ledgerDigits + ordinalDigits
)

// enterCharge enters the price of a served request, if it cost anything. If the price was refunded meanwhile, the client has
// already seen it, so the ledger shows the charge and its refund. The refund comes first: its credits may be spent by now, and
// the charge must not take the balance below zero.
func (c *credits) enterCharge(a *account, h *hold, at int64) {
	cost := h.cost
	if h.returned > 0 {
		c.enterReturn(a, h.admission(), h.returned, at)
		cost = h.returned
	}
	if cost == 0 {
		return
	}
	c.enterFor(a, h.admission(), at, &event.LedgerEntry{Type: event.LedgerType_LEDGER_CHARGE, AmountMicros: -num.Int64(cost)})
}

// admission is how a request was admitted that ledger entries are about.
type admission struct {
	request  event.RequestID
	key      plan.QuotaKey
	sequence uint64
	index    uint32
	time     int64
	day      uint32 // in which the request counts
}

func (h *hold) admission() admission {
	return admission{request: h.request, key: h.key, sequence: h.sequence, index: h.index, time: h.time, day: h.day}
}

// enterFor enters a charge or refund of a request. Its time is the admission's, on the day that counts the request, so that
// ledger, days and statement agree about its month.
func (c *credits) enterFor(a *account, r admission, at int64, e *event.LedgerEntry) {
	day := int64(r.day) * dayMillis
	e.TimeMs, e.SettledMs = max(day, min(r.time, day+dayMillis-1)), at
	e.QuotaKey, e.RequestId = uint32(r.key), slices.Clone(r.request[:])
	e.AdmittedBefore, e.AdmittedIndex = c.sequence-r.sequence, uint64(r.index)+1
	c.enter(a, monthOf(day).number, e)
}
