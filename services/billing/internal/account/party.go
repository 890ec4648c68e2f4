package account

import (
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// party is what an account and a keyless network have in common.
type party struct {
	id       uint64
	account  *account // one of the two
	network  *network
	open     holdList
	closed   holdList // remembered
	failures []int64  // times of the failed calls in the last minute
	dirty    bool
	gone     bool
	hash     hash128 // of the state when it was last not dirty
	encoded  []byte  // that state; replaced, never changed
	openBy   [plan.KeyCount]uint32
	openPaid uint32 // open holds that credits paid
}

type account struct {
	party
	tier        plan.Tier
	created     int64
	keyVersion  uint32
	fingerprint uint64
	keyPrefix   string
	keyCreated  int64

	month     uint32 // number of the month that current counts
	current   counters
	previous  *counters // nil: all zero
	tierThen  plan.Tier // at the end of the previous month
	grants    []*grant  // in the order in which they are spent
	available int64     // what the grants have left
	settled   int64     // the ledger's balance: what is available and what open holds have taken
	entries   uint64    // in the ledger

	storageBytes uint64
	storageSince int64 // up to when it is in the integrals
}

// counters are one month's. Every counted request is in used, those that credits paid in overage too.
type counters struct {
	used, overage, waived [plan.KeyCount]uint32
	spent                 [plan.KeyCount]uint64
	byteMillis            uint128
}

func (c *counters) zero() bool { return c == nil || *c == counters{} }

type network struct {
	party
	admitted []int64 // times of what was admitted in the window, oldest first
}

type networkTime struct {
	time    int64
	network *network
}

type partyTime struct {
	time  int64
	party *party
}

func newParty(id uint64) party {
	return party{id: id, open: holdList{kind: linkParty}, closed: holdList{kind: linkParty}}
}

func (f *Fold) network(id uint64) *network {
	n := f.networks[id]
	if n == nil {
		n = &network{party: newParty(id)}
		n.party.network = n
		f.networks[id] = n
	}
	return n
}

// touch notes that the party is about to change.
func (f *Fold) touch(p *party) {
	if !p.dirty {
		p.dirty = true
		f.dirty = append(f.dirty, p)
	}
}

// reap forgets a network of which nothing is left.
func (f *Fold) reap(p *party) {
	n := p.network
	if n == nil || len(n.admitted) > 0 || len(p.failures) > 0 || p.open.count > 0 || p.closed.count > 0 {
		return
	}
	f.touch(p)
	p.gone = true
	delete(f.networks, p.id)
}

// fail counts a failed call.
func (f *Fold) fail(p *party) {
	f.touch(p)
	p.failures = append(p.failures, f.time)
	f.failures.push(partyTime{f.time, p})
}

func (f *Fold) trimFailures(at partyTime) {
	p := at.party
	if p.gone || len(p.failures) == 0 || p.failures[0] > at.time {
		return
	}
	f.touch(p)
	p.failures = dropUntil(p.failures, at.time)
	f.reap(p)
}

// trimAdmitted takes what has left the rolling window out of the networks' logs.
func (f *Fold) trimAdmitted() {
	if f.book == nil {
		return
	}
	for f.admitted.len() > 0 && f.admitted.first().time+f.book.AnonymousWindowMillis <= f.time {
		at := f.admitted.pop()
		n := at.network
		if n.gone || len(n.admitted) == 0 || n.admitted[0] > at.time {
			continue
		}
		f.touch(&n.party)
		n.admitted = dropUntil(n.admitted, at.time)
		f.reap(&n.party)
	}
}

// dropUntil removes the times that are not after last.
func dropUntil(times []int64, last int64) []int64 {
	n := 0
	for n < len(times) && times[n] <= last {
		n++
	}
	return slices.Delete(times, 0, n)
}

// hold is an admission that waits for its settlement, or a closed one that is remembered.
type hold struct {
	request        event.RequestID
	idempotency    event.IdempotencyID
	hasIdempotency bool
	write          bool
	timedOut       bool
	key            plan.QuotaKey
	charge         event.ChargeSource
	result         event.Result // of closed ones
	month          uint32       // that it is counted in
	index          uint32       // position in its batch
	sequence       uint64
	time           int64
	closedAt       int64
	cost           uint64
	party          *party
	use            []grantUse // empty but for the charges to credits
	links          [2]holdLink
}

type grantUse struct {
	grant  *grant
	amount uint64
}

type holdLink struct{ prev, next *hold }

type linkKind uint8

const (
	linkGlobal linkKind = iota
	linkParty
)

// holdList is a linked list through the holds themselves: to take one out costs nothing to find.
type holdList struct {
	kind       linkKind
	head, tail *hold
	count      int
}

func (l *holdList) push(h *hold) {
	h.links[l.kind] = holdLink{prev: l.tail}
	if l.tail != nil {
		l.tail.links[l.kind].next = h
	} else {
		l.head = h
	}
	l.tail = h
	l.count++
}

func (l *holdList) remove(h *hold) {
	at := h.links[l.kind]
	if at.prev != nil {
		at.prev.links[l.kind].next = at.next
	} else {
		l.head = at.next
	}
	if at.next != nil {
		at.next.links[l.kind].prev = at.prev
	} else {
		l.tail = at.prev
	}
	h.links[l.kind] = holdLink{}
	l.count--
}

func (h *hold) after() *hold { return h.links[linkParty].next }

// newHold takes one from the free list: holds come and go with every request.
func (f *Fold) newHold() *hold {
	h := f.free
	if h == nil {
		return &hold{}
	}
	f.free = h.links[linkGlobal].next
	use := h.use[:0]
	*h = hold{use: use}
	return h
}

func (f *Fold) freeHold(h *hold) {
	clear(h.use)
	h.links[linkGlobal] = holdLink{next: f.free}
	f.free = h
}

// addOpen enters an open hold everywhere it is found by.
func (f *Fold) addOpen(h *hold) {
	p := h.party
	f.open.push(h)
	p.open.push(h)
	p.openBy[h.key]++
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		p.openPaid++
	}
	f.byRequest[h.request] = h
	if h.hasIdempotency {
		f.byIdempotency[h.idempotency] = h
	}
}

// removeOpen takes it out of the lists of open ones. It can still be found.
func (f *Fold) removeOpen(h *hold) {
	p := h.party
	f.open.remove(h)
	p.open.remove(h)
	p.openBy[h.key]--
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		p.openPaid--
	}
}

// remember keeps a closed hold for a while.
func (f *Fold) remember(h *hold, result event.Result, at int64) {
	h.result, h.closedAt = result, at
	f.closed.push(h)
	h.party.closed.push(h)
}

// forget lets go of a remembered hold.
func (f *Fold) forget(h *hold) {
	p := h.party
	f.touch(p)
	f.closed.remove(h)
	p.closed.remove(h)
	f.drop(h)
	f.reap(p)
}

// drop takes a closed hold out of the indexes and gives its memory back.
func (f *Fold) drop(h *hold) {
	delete(f.byRequest, h.request)
	if h.hasIdempotency && f.byIdempotency[h.idempotency] == h {
		delete(f.byIdempotency, h.idempotency)
	}
	f.release(h)
	f.freeHold(h)
}

// fifo is a queue. Its memory is given back as it is emptied.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }
func (q *fifo[T]) first() T { return q.items[q.head] }
func (q *fifo[T]) push(item T) {
	q.items = append(q.items, item)
}

func (q *fifo[T]) pop() T {
	var none T
	item := q.items[q.head]
	q.items[q.head] = none
	q.head++
	if q.head >= 64 && q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
		if cap(q.items) > 1024 && n < cap(q.items)/8 {
			q.items = slices.Clone(q.items)
		}
	}
	return item
}
