package account

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"quire.dev/pkg/event"
)

// grant is credits that were given to an account.
type grant struct {
	id      uint64 // sequence << 12 | position of the command
	amount  uint64
	left    uint64
	expires int64 // 0: never
	created int64
	reason  string
	account *account
	refs    int  // holds that took from it and may give back
	over    bool // expired
	heap    int  // position in the expiry heap
}

// compareGrants is the order in which grants are spent: the soonest to expire first, those that
// never do last, then the oldest.
func compareGrants(a, b *grant) int {
	return cmp.Or(cmp.Compare(a.expiryOrder(), b.expiryOrder()), cmp.Compare(a.id, b.id))
}

func (g *grant) expiryOrder() int64 {
	if g.expires == 0 {
		return math.MaxInt64
	}
	return g.expires
}

// expiryHeap holds the grants that will expire, the next one first. Accounts and grant ids break
// ties, so that the order is always the same.
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

// addGrant puts a grant where its turn is.
func (f *Fold) addGrant(g *grant) {
	a := g.account
	i, _ := slices.BinarySearchFunc(a.grants, g, compareGrants)
	a.grants = slices.Insert(a.grants, i, g)
	if g.expires != 0 && !g.over {
		heap.Push(&f.expiries, g)
	}
}

// tidy forgets a grant of which nothing is left and to which nothing can come back.
func (f *Fold) tidy(g *grant) {
	if g.left > 0 || g.refs > 0 {
		return
	}
	a := g.account
	if i, found := slices.BinarySearchFunc(a.grants, g, compareGrants); found {
		a.grants = slices.Delete(a.grants, i, i+1)
	}
	if g.expires != 0 && !g.over {
		heap.Remove(&f.expiries, g.heap)
		g.over = true
	}
}

// pay takes a price, which the account has, from its grants, and notes from which.
func (f *Fold) pay(a *account, h *hold, price uint64) {
	h.charge, h.cost = event.ChargeSource_CHARGE_CREDITS, price
	take(f, "available credits", &a.available, int64(price))
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
		f.fault("the grants lack %d of the available credits", price)
	}
}

// refund gives the price of a hold back to the grants it came from. The part of a grant that has
// expired meanwhile expires again at once. The ledger's balance must still hold the price.
func (f *Fold) refund(a *account, h *hold, at int64) {
	for _, u := range h.use {
		u.grant.left += u.amount
		a.available += int64(u.amount)
		if u.grant.over {
			f.expireRest(u.grant, at)
		}
	}
	f.release(h)
}

// release ends the hold's claim on its grants.
func (f *Fold) release(h *hold) {
	for _, u := range h.use {
		take(f, "holds of a grant", &u.grant.refs, 1)
		f.tidy(u.grant)
	}
	clear(h.use)
	h.use = h.use[:0]
}

// expire ends the grant that is next in the heap.
func (f *Fold) expire(g *grant) {
	f.touch(&g.account.principal)
	heap.Pop(&f.expiries)
	g.over = true
	f.expireRest(g, g.expires)
	f.tidy(g)
}

func (f *Fold) expireRest(g *grant, at int64) {
	if g.left == 0 {
		return
	}
	rest := int64(g.left)
	g.left = 0
	take(f, "available credits", &g.account.available, rest)
	f.enter(g.account, &event.LedgerEntry{
		TimeMs: at, Type: event.LedgerType_LEDGER_EXPIRY, AmountMicros: -rest, Reason: g.reason,
	})
}

// adjust takes credits that are there away, in the order in which they would be spent.
func (f *Fold) adjust(a *account, amount uint64) {
	take(f, "available credits", &a.available, int64(amount))
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
		f.tidy(g)
	}
	if amount > 0 {
		f.fault("the grants lack %d of the available credits", amount)
	}
}

// enter writes a line of the account's ledger and moves its balance. The caller gives time, type,
// amount and what else is known.
func (f *Fold) enter(a *account, e *event.LedgerEntry) {
	take(f, "settled credits", &a.settled, -e.AmountMicros) // of a positive amount: adds
	a.entries++
	e.Id = string(ledgerID(f.sequence, f.ordinal))
	f.ordinal++
	e.Account = a.id
	e.BalanceMicros = uint64(a.settled)
	f.effects.Ledger = append(f.effects.Ledger, e)
}

// ledgerID is the position of an entry, in a form that sorts as it does.
func ledgerID(sequence uint64, ordinal uint32) []byte {
	id := event.AppendBase62(make([]byte, 0, ledgerDigits+ordinalDigits), sequence, ledgerDigits)
	return event.AppendBase62(id, uint64(ordinal), ordinalDigits)
}

// Digits of a ledger id in base62: of a 64-bit and of a 32-bit number.
const (
	ledgerDigits  = 11
	ordinalDigits = 6
)

// enterCharge writes the price of a request that was served.
func (f *Fold) enterCharge(a *account, h *hold, at int64) {
	if h.cost == 0 {
		return
	}
	f.enter(a, &event.LedgerEntry{
		TimeMs: at, Type: event.LedgerType_LEDGER_CHARGE, QuotaKey: uint32(h.key),
		AmountMicros: -int64(h.cost), RequestId: slices.Clone(h.request[:]),
	})
}
