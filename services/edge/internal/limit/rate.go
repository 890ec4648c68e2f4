// Package limit bounds how often callers may do what billing does not count: open pages, make free calls, change an account, guess
// passwords, fail. It counts and says how long to wait. Package web decides what is limited, and what a refusal looks like.
//
// All limits take bounded memory, whoever calls. Those of Rate, Networks and Keyless hold over all edges: each edge notifies the
// others of what it has counted, by Drain and Merge.
package limit

import (
	"hash/maphash"
	"sync"
	"time"

	"quire.dev/pkg/event"
)

const (
	rows     = 4
	rowBits  = 15
	rowSlots = 1 << rowBits

	maxDrained = 8192 // callers in a list of a message, of some 16 bytes each; six lists stay below 1 MB
)

// epoch is long before any call, so that an empty slot is that of a caller who has not called.
const epoch = -100 * 365 * 24 * time.Hour

// Rate limits how often each caller may do something: burst times at once, and perSecond on the average. The edges notify each
// other each second of what they have let through, so that the average holds over all of them. What an edge lets through before it
// is notified counts too: the caller waits for longer afterwards.
//
// A caller is known by its slots, one in each row, which it may share with others; the slot that is least used decides. So the memory
// is fixed and nobody is ever forgotten: many callers can't push one out who has reached the limit. One who has not is refused only
// where each of its slots is shared with a caller who has. Where slots are depends on a seed that nobody outside knows.
type Rate struct {
	interval time.Duration // between two calls on the average
	burst    time.Duration // this many intervals
	start    time.Time
	seed     maphash.Seed

	mu sync.Mutex
	// slots are the times, after start, at which the callers may make a whole burst again: the generic cell rate algorithm.
	slots []time.Duration
	fresh map[event.AccountID]uint32 // calls that the other edges were not notified of yet
}

// NewRate makes a limit. A network stands in it by a keyed hash, so that no other edge learns an address.
func NewRate(perSecond float64, burst int) *Rate {
	interval := max(1, time.Duration(float64(time.Second)/perSecond))
	return &Rate{
		interval: interval, burst: time.Duration(burst) * interval, start: time.Now().Add(epoch), seed: maphash.MakeSeed(),
		slots: make([]time.Duration, rows*rowSlots), fresh: make(map[event.AccountID]uint32),
	}
}

// Admit counts a call. If the caller has made too many it counts none, and returns the seconds until the next may be made.
func (r *Rate) Admit(caller event.AccountID, now time.Time) (seconds int) {
	if seconds := r.Take(caller, now); seconds > 0 {
		return seconds
	}
	r.Keep(caller)
	return 0
}

// Take is Admit for a call of which it is not known yet whether it counts. Keep or Return must follow unless it is refused.
func (r *Rate) Take(caller event.AccountID, now time.Time) (seconds int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, slots := r.at(now), r.slotsOf(caller)
	full := max(r.full(slots), at) + r.interval
	if wait := full - at - r.burst; wait > 0 {
		return roundUp(wait)
	}
	r.raise(slots, full)
	return 0
}

// Keep makes a call count that Take has let through.
func (r *Rate) Keep(caller event.AccountID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.fresh[caller]; there || len(r.fresh) < maxDrained {
		r.fresh[caller]++
	}
}

// Return gives back a call that Take has let through. It does not lower what others who share a slot have used.
func (r *Rate) Return(caller event.AccountID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slots := r.slotsOf(caller)
	full := r.full(slots)
	for _, i := range slots {
		if r.slots[i] == full {
			r.slots[i] -= r.interval
		}
	}
}

// Drain returns the calls since the last time.
func (r *Rate) Drain() []*event.SourceCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	return drain(r.fresh)
}

// Merge counts what another edge has let through.
func (r *Rate) Merge(counts []*event.SourceCount, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.at(now)
	for _, c := range counts {
		slots := r.slotsOf(event.AccountID(c.Source))
		used := min(time.Duration(c.Calls)*r.interval, r.burst)
		r.raise(slots, max(r.full(slots), at)+used)
	}
}

func (r *Rate) at(now time.Time) time.Duration { return now.Sub(r.start) }

func (r *Rate) slotsOf(caller event.AccountID) (slots [rows]int) {
	hash := maphash.Comparable(r.seed, caller)
	for row := range slots {
		slots[row] = row<<rowBits | int(hash&(rowSlots-1))
		hash >>= rowBits
	}
	return slots
}

// full is when a caller may make a whole burst again.
func (r *Rate) full(slots [rows]int) time.Duration {
	full := r.slots[slots[0]]
	for _, i := range slots[1:] {
		full = min(full, r.slots[i])
	}
	return full
}

// raise sets full. Slots that others have used more than that stay.
func (r *Rate) raise(slots [rows]int, full time.Duration) {
	for _, i := range slots {
		r.slots[i] = max(r.slots[i], full)
	}
}

func drain(fresh map[event.AccountID]uint32) []*event.SourceCount {
	counts := make([]*event.SourceCount, 0, len(fresh))
	for caller, calls := range fresh {
		counts = append(counts, &event.SourceCount{Source: uint64(caller), Calls: calls})
	}
	clear(fresh)
	return counts
}

// roundUp is a wait in whole seconds.
func roundUp(wait time.Duration) int { return int((wait + time.Second - 1) / time.Second) }
