package account

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// hold is an admission waiting for its settlement, or a closed one that is still remembered.
type hold struct {
	request        event.RequestID
	idempotency    event.IdempotencyID
	hasIdempotency bool
	write          bool
	timedOut       bool
	repeats        uint8 // of a read with an idempotency id: number of free repeats
	movable        bool  // paid from credits under the account's present terms: it becomes free if the void of another hold leaves quota
	key            plan.QuotaKey
	charge         event.ChargeSource
	result         event.Result // of a closed one
	month          uint32       // in which it counts
	day            uint32       // in which it counts
	index          uint32       // position in its batch
	keyNumber      uint32       // of the API key; 0: the default key, or a network
	lineage        uint32       // of that key
	sequence       uint64
	time           int64
	closedAt       int64
	cost           uint64
	returned       uint64 // former cost, refunded by the void of another hold
	terms          uint64 // of the account at the admission
	readHash       uint64 // event.ReadHash of a read with an idempotency id; else 0
	principal      *principal
	use            []grantUse // if credits paid the hold
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

// holdList is a linked list through the holds themselves, so that removal needs no search.
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

func (s *holds) remove(l *holdList, h *hold) {
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
	if l.kind == linkGlobal {
		l.count = max(0, l.count-1) // decides nothing
		return
	}
	take(s.base, "holds of a list", &l.count, 1)
}

func (h *hold) after() *hold { return h.links[linkPrincipal].next }

// holds are the open and the remembered holds of a fold.
type holds struct {
	*base
	byRequest     map[event.RequestID]*hold // open or remembered
	byOffset      map[uint64]*batchHolds    // reads that an edge may settle, by the sequence of their message
	spareBatches  []*batchHolds
	byIdempotency map[event.IdempotencyID]*hold
	open          holdList // in the order of admission, and so of time-outs
	closed        holdList // remembered, in the order of closing
	free          *hold
}

func newHolds(b *base) holds {
	return holds{
		base:          b,
		byRequest:     map[event.RequestID]*hold{},
		byOffset:      map[uint64]*batchHolds{},
		byIdempotency: map[event.IdempotencyID]*hold{},
		open:          holdList{kind: linkGlobal},
		closed:        holdList{kind: linkGlobal},
	}
}

// newHold takes a hold from the free list, because holds come and go with every request.
func (s *holds) newHold() *hold {
	h := s.free
	if h == nil {
		return &hold{}
	}
	s.free = h.links[linkGlobal].next
	use := h.use[:0]
	*h = hold{use: use}
	return h
}

func (s *holds) freeHold(h *hold) {
	clear(h.use)
	h.links[linkGlobal] = holdLink{next: s.free}
	s.free = h
}

// due is when the next open hold times out; never if there is none.
func (s *holds) due() int64 {
	if s.open.head == nil {
		return never
	}
	return s.open.head.time + HoldMillis
}

// addOpen adds an open hold to the lists and indexes.
func (s *holds) addOpen(h *hold) {
	p := h.principal
	s.open.push(h)
	p.open.push(h)
	p.openBy[h.key]++
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		p.openPaid++
	}
	if !h.movable {
		p.holding[h.key]++
	}
	s.byRequest[h.request] = h
	s.index(h)
	if h.hasIdempotency {
		s.replace(h)
		s.byIdempotency[h.idempotency] = h
	}
}

// replace takes the idempotency id of h from the read that had it, which no call repeats any more.
func (s *holds) replace(h *hold) {
	if used := s.byIdempotency[h.idempotency]; used != nil {
		used.hasIdempotency = false
		s.touch(used.principal)
	}
}

// removeOpen removes a hold from the lists of open ones. The indexes keep it.
func (s *holds) removeOpen(h *hold) {
	p := h.principal
	s.remove(&s.open, h)
	s.remove(&p.open, h)
	take(s.base, "open holds of a quota key", &p.openBy[h.key], 1)
	if h.charge == event.ChargeSource_CHARGE_CREDITS {
		take(s.base, "open paid holds", &p.openPaid, 1)
	}
}

// remember keeps a closed hold for MemoryMillis.
func (s *holds) remember(h *hold, result event.Result, at int64) {
	h.result, h.closedAt = result, at
	s.closed.push(h)
	h.principal.closed.push(h)
}

// forget drops a remembered hold.
func (f *Fold) forget(h *hold) {
	p := h.principal
	f.touch(p)
	if h.timedOut && h.result == event.Result_SERVED {
		f.finalLate(h)
	}
	f.holds.remove(&f.holds.closed, h)
	f.holds.remove(&p.closed, h)
	f.drop(h)
	f.principals.reap(p)
}

// drop forgets a closed hold, which can't be refunded any more.
func (f *Fold) drop(h *hold) {
	f.credits.release(h)
	f.holds.drop(h)
}

// drop removes a closed hold from the indexes and returns it to the free list.
func (s *holds) drop(h *hold) {
	delete(s.byRequest, h.request)
	s.unindex(h)
	if h.hasIdempotency && s.byIdempotency[h.idempotency] == h {
		delete(s.byIdempotency, h.idempotency)
	}
	s.freeHold(h)
}

// OpenHolds is the number of admissions waiting for settlement.
func (s *holds) OpenHolds() int { return s.open.count }
