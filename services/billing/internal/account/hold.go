package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/recent"
)

// hold is an admission that waits for its settlement, or one that is closed and still remembered.
type hold struct {
	request        event.RequestID
	idempotency    event.IdempotencyID
	hasIdempotency bool
	write          bool
	timedOut       bool
	repeats        uint8 // of a read with an idempotency id: how often it was served again without a charge
	movable        bool  // credits paid it under the account's present terms: the void of another hold may make it free
	key            plan.QuotaKey
	charge         event.ChargeSource
	result         event.Result // of a closed one
	month          uint32       // in which it is counted
	day            uint32       // likewise
	index          uint32       // position in its batch
	keyNumber      uint32       // of the API key; 0: the default key, or a network
	line           uint32       // of that key
	recent         recent.Ref   // of an account's; not part of the state
	sequence       uint64
	time           int64
	closedAt       int64
	cost           uint64
	returned       uint64 // was the cost, until the void of another hold gave it back
	terms          uint64 // of the account at the admission
	readHash       uint64 // of a read with an idempotency id: its path and query; 0: it is no such read
	principal      *principal
	use            []grantUse // of a hold that credits paid
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
	linkPrincipal
)

// holdList is a linked list through the holds themselves, so that one is removed without a search.
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

func (f *Fold) remove(l *holdList, h *hold) {
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
	take(f, "holds of a list", &l.count, 1)
}

func (h *hold) after() *hold { return h.links[linkPrincipal].next }

// newHold takes a hold from the free list, because holds come and go with every request.
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

// addOpen enters an open hold into the lists and indexes.
func (f *Fold) addOpen(h *hold) {
	p := h.principal
	f.open.push(h)
	p.open.push(h)
	p.openBy[h.key]++
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		p.openPaid++
	}
	if !h.movable {
		p.holding[h.key]++
	}
	f.byRequest[h.request] = h
	f.place(h)
	if h.hasIdempotency {
		f.replace(h)
		f.byIdempotency[h.idempotency] = h
	}
}

// replace frees the idempotency id of h from a read that may not be repeated any more.
func (f *Fold) replace(h *hold) {
	if used := f.byIdempotency[h.idempotency]; used != nil {
		used.hasIdempotency = false
		f.touch(used.principal)
	}
}

// removeOpen takes a hold out of the lists of open ones. The indexes still find it.
func (f *Fold) removeOpen(h *hold) {
	p := h.principal
	f.remove(&f.open, h)
	f.remove(&p.open, h)
	take(f, "open holds of a quota key", &p.openBy[h.key], 1)
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		take(f, "open paid holds", &p.openPaid, 1)
	}
}

// remember keeps a closed hold for MemoryMillis.
func (f *Fold) remember(h *hold, result event.Result, at int64) {
	h.result, h.closedAt = result, at
	f.closed.push(h)
	h.principal.closed.push(h)
}

// forget ends the memory of a closed hold.
func (f *Fold) forget(h *hold) {
	p := h.principal
	f.touch(p)
	if h.timedOut && h.result == event.Result_SERVED {
		f.finalLate(h)
	}
	f.remove(&f.closed, h)
	f.remove(&p.closed, h)
	f.drop(h)
	f.reap(p)
}

// drop takes a closed hold out of the indexes and returns it to the free list.
func (f *Fold) drop(h *hold) {
	delete(f.byRequest, h.request)
	f.displace(h)
	if h.hasIdempotency && f.byIdempotency[h.idempotency] == h {
		delete(f.byIdempotency, h.idempotency)
	}
	f.release(h)
	f.freeHold(h)
}
