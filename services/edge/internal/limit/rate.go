// Package limit rate-limits what billing does not count: page views, free calls, account changes, password guesses and
// failures. It counts and returns how long to wait. Package endpoint decides what is limited and how a refusal looks.
//
// Every limit uses bounded memory. Rate, Networks and Keyless hold across all edges: each edge notifies the others of its
// counts through Drain and Merge.
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

	maxDrained = 8192 // callers per list in a message, some 16 bytes each; six lists stay below 1 MB
)

// epoch is long before any call, so that an empty slot allows a full burst.
const epoch = -100 * 365 * 24 * time.Hour

// Rate limits each caller to perSecond calls on average, with bursts of burst. Edges exchange their counts every second, so
// that the average holds across all of them; calls admitted before an exchange lengthen later waits.
//
// It is a count-min sketch: a caller has one slot in each row, which it may share with others, and the least used slot
// decides. Memory is fixed and no caller is evicted, so that many callers can't reset one that is over the limit. A caller
// below the limit is refused only if each of its slots is shared with one over the limit. A random seed places the slots.
type Rate struct {
	interval time.Duration // average time between two calls
	burst    time.Duration // this many intervals
	start    time.Time
	seed     maphash.Seed

	mu sync.Mutex
	// slots are the times, after start, at which the callers may make a whole burst again: the generic cell rate algorithm.
	slots []time.Duration
	fresh map[event.AccountID]uint32 // calls not yet sent to the other edges
}

// NewRate returns a limit. It stores networks by keyed hash, so that messages don't reveal addresses.
func NewRate(perSecond float64, burst int) *Rate {
	interval := max(1, time.Duration(float64(time.Second)/perSecond))
	return &Rate{
		interval: interval, burst: time.Duration(burst) * interval, start: time.Now().Add(epoch), seed: maphash.MakeSeed(),
		slots: make([]time.Duration, rows*rowSlots), fresh: make(map[event.AccountID]uint32),
	}
}

// Admit counts a call. If the caller is over the limit, it returns the seconds to wait and counts nothing.
func (r *Rate) Admit(caller event.AccountID, now time.Time) (seconds int) {
	if seconds := r.Take(caller, now); seconds > 0 {
		return seconds
	}
	r.Keep(caller)
	return 0
}

// Take is Admit for a call that may turn out not to count. Keep or Return must follow, unless it is refused.
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

// Keep counts a call that Take admitted.
func (r *Rate) Keep(caller event.AccountID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, there := r.fresh[caller]; there || len(r.fresh) < maxDrained {
		r.fresh[caller]++
	}
}

// Return gives back a call that Take admitted, without lowering the usage of callers that share a slot.
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

// Drain returns the calls since the last Drain.
func (r *Rate) Drain() []*event.SourceCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	return drain(r.fresh)
}

// Merge counts calls admitted by another edge.
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

// full is the time at which a caller may make a full burst again.
func (r *Rate) full(slots [rows]int) time.Duration {
	full := r.slots[slots[0]]
	for _, i := range slots[1:] {
		full = min(full, r.slots[i])
	}
	return full
}

// raise sets full, except in slots with more usage by others.
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
