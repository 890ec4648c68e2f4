// Package recent keeps the recent requests of a partition's accounts in bounded memory: of the last two days, and at most a
// thousand per account. It is not part of the fold's state: nothing depends on it.
package recent

import "quire.dev/pkg/event"

const (
	// PerAccount is how many requests are kept per account.
	PerAccount = 1000
	// KeepMillis is how long a request is kept, in milliseconds of journal time.
	KeepMillis = 48 * 60 * 60 * 1000

	// accountBytes is about what an account takes besides its requests: its chain, and its entry in the map.
	accountBytes = 64
	// againMillis is how long a refusal is expected to be decided again under the same id. Edges give up after seconds.
	againMillis = 60 * 1000
	// maxAgain bounds the refusals of againMillis that are expected again. Beyond it the oldest keep their rows.
	maxAgain = 1 << 16
)

// Status is how a request ended.
type Status uint8

// Statuses.
const (
	Refused Status = iota
	Held           // refused, but open holds may undo that
	Open
	Served
	Void
	ServedUnsettled // by a time-out
	Waived          // served after its hold was voided, and not charged
	statuses
)

// Record is a request of an account.
type Record struct {
	Request    event.RequestID
	TimeMillis int64 // of the decision
	CostMicros uint64
	Remaining  int64  // as reported to the caller
	Key        uint32 // number of the API key
	QuotaKey   uint8  // plan.QuotaKey
	Decision   uint8  // event.Decision
	Charge     uint8  // event.ChargeSource
	Status     Status
}

// Ref is the index of a record, which may later hold another one. Zero is none.
type Ref uint32

// entry is a record with its neighbors. It has no pointers, so that the garbage collector skips it.
type entry struct {
	Record
	account       uint64
	newer, older  Ref // of the same account
	after, before Ref // of all accounts
}

// chain is the list of an account's records.
type chain struct {
	newest, oldest Ref
	count          uint32
}

// Log keeps the requests of a partition. When it is full, the oldest of all leave first. Not safe for concurrent use.
type Log struct {
	budget         int // bytes
	slab           slab
	unused         []Ref
	newest, oldest Ref
	count          int

	byAccount    map[uint64]uint32 // index of chains
	chains       []chain
	unusedChains []uint32

	// again are the refusals that are expected to be decided again, of the current minute of journal time and of the previous one.
	again, againBefore map[event.RequestID]Ref
	againSince         int64
}

// New returns a log with a memory budget in bytes.
func New(budget int) *Log {
	return &Log{
		budget: budget, slab: slab{used: 1}, byAccount: map[uint64]uint32{},
		again: map[event.RequestID]Ref{}, againBefore: map[event.RequestID]Ref{},
	}
}

// Len is the number of records.
func (l *Log) Len() int { return l.count }

// Bytes is the approximate size of the records. It does not exceed the budget, unless a single record does.
func (l *Log) Bytes() int { return l.count*entryBytes + len(l.byAccount)*accountBytes }

// Add adds the decision about a request. A request refused because of open holds, or of another one under its Idempotency-Key,
// is retried under the same id: the new record replaces the old one.
func (l *Log) Add(account uint64, r Record) Ref {
	if len(l.again)+len(l.againBefore) > 0 {
		l.replace(account, r)
	}
	for l.oldest != 0 && r.TimeMillis-l.slab.at(l.oldest).TimeMillis >= KeepMillis {
		l.drop(l.oldest)
	}
	ref := l.push(account, r)
	l.expect(r, ref)
	return ref
}

// push makes a record the newest one. Others leave the log for it.
func (l *Log) push(account uint64, r Record) Ref {
	index, known := l.byAccount[account]
	if known && l.chains[index].count >= PerAccount {
		l.drop(l.chains[index].oldest)
	}
	for l.count > 0 && l.Bytes()+entryBytes > l.budget {
		l.drop(l.oldest)
	}
	if index, known = l.byAccount[account]; !known { // its last record may just have left
		index = l.newChain(account)
	}
	var ref Ref
	if n := len(l.unused); n > 0 {
		ref, l.unused = l.unused[n-1], l.unused[:n-1]
	} else {
		ref = l.slab.grow()
	}
	c := &l.chains[index]
	*l.slab.edit(ref) = entry{Record: r, account: account, older: c.newest, before: l.newest}
	if c.newest != 0 {
		l.slab.edit(c.newest).newer = ref
	} else {
		c.oldest = ref
	}
	if l.newest != 0 {
		l.slab.edit(l.newest).after = ref
	} else {
		l.oldest = ref
	}
	c.newest, l.newest = ref, ref
	c.count++
	l.count++
	return ref
}

func (l *Log) newChain(account uint64) uint32 {
	var index uint32
	if n := len(l.unusedChains); n > 0 {
		index, l.unusedChains = l.unusedChains[n-1], l.unusedChains[:n-1]
	} else {
		index = uint32(len(l.chains))
		l.chains = append(l.chains, chain{})
	}
	l.chains[index] = chain{}
	l.byAccount[account] = index
	return index
}

// drop removes a record.
func (l *Log) drop(ref Ref) {
	e := *l.slab.at(ref)
	index := l.byAccount[e.account]
	c := &l.chains[index]
	if e.older != 0 {
		l.slab.edit(e.older).newer = e.newer
	} else {
		c.oldest = e.newer
	}
	if e.newer != 0 {
		l.slab.edit(e.newer).older = e.older
	} else {
		c.newest = e.older
	}
	if c.count--; c.count == 0 {
		delete(l.byAccount, e.account)
		l.unusedChains = append(l.unusedChains, index)
	}
	if e.before != 0 {
		l.slab.edit(e.before).after = e.after
	} else {
		l.oldest = e.after
	}
	if e.after != 0 {
		l.slab.edit(e.after).before = e.before
	} else {
		l.newest = e.before
	}
	*l.slab.edit(ref) = entry{}
	l.unused = append(l.unused, ref)
	l.count--
}

// replace removes the record of a retried request. The list is in the order of decisions.
func (l *Log) replace(account uint64, r Record) {
	ref, found := l.again[r.Request]
	if !found {
		ref, found = l.againBefore[r.Request]
	}
	if !found {
		return
	}
	if have := l.slab.at(ref); have.Request != r.Request || have.account != account {
		return
	}
	l.drop(ref)
	delete(l.again, r.Request)
	delete(l.againBefore, r.Request)
}

// expect records that a request may be retried, if its decision is such that edges do that.
func (l *Log) expect(r Record, ref Ref) {
	switch {
	case r.Status == Held:
	case r.Status != Refused:
		return
	case event.Decision(r.Decision) == event.Decision_IDEMPOTENCY_IN_FLIGHT, event.Decision(r.Decision) == event.Decision_IDEMPOTENCY_SERVED:
	default:
		return
	}
	if age := r.TimeMillis - l.againSince; age >= againMillis || age < 0 || len(l.again) >= maxAgain {
		l.again, l.againBefore = l.againBefore, l.again
		clear(l.again)
		l.againSince = r.TimeMillis
	}
	l.again[r.Request] = ref
}

// Edit returns the record at ref if it belongs to the request, and otherwise searches the account's records; nil if there is
// none. It may be changed until the next call.
func (l *Log) Edit(ref Ref, account uint64, request event.RequestID) *Record {
	if ref == 0 || l.slab.at(ref).Request != request {
		if ref = l.Find(account, request); ref == 0 {
			return nil
		}
	}
	return &l.slab.edit(ref).Record
}

// Find returns the Ref of a request's record, or 0.
func (l *Log) Find(account uint64, request event.RequestID) (found Ref) {
	l.each(account, func(ref Ref, e *entry) bool {
		if e.Request == request {
			found = ref
		}
		return found == 0
	})
	return found
}

// Each calls do with an account's requests, newest first, until it returns false. The record is valid during the call.
func (l *Log) Each(account uint64, do func(*Record) bool) {
	l.each(account, func(_ Ref, e *entry) bool { return do(&e.Record) })
}

func (l *Log) each(account uint64, do func(Ref, *entry) bool) {
	index, known := l.byAccount[account]
	if !known {
		return
	}
	for ref := l.chains[index].newest; ref != 0; {
		e := l.slab.at(ref)
		if !do(ref, e) {
			return
		}
		ref = e.older
	}
}
