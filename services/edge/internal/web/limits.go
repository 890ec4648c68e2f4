package web

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"quire.dev/services/edge/internal/fault"
)

// The limit of contract.md, Errors, too_many_failures.
const (
	failureLimit   = 100
	failureWindow  = time.Minute
	failureSources = 8192 // remembered at a time; the one that failed longest ago is forgotten first
)

// failureLog counts, per source, calls that failed before billing saw them: bad keys, and updates
// and deletes without a key. It keeps the times themselves, so the window is exact, and at most
// failureSources * (failureLimit + 1) of them.
type failureLog struct {
	mu      sync.Mutex
	sources map[netip.Addr]*list.Element
	recent  *list.List // of *sourceFailures, the latest first
}

type sourceFailures struct {
	source netip.Addr
	times  []int64 // Unix milliseconds, oldest first
}

func newFailureLog() *failureLog {
	return &failureLog{sources: make(map[netip.Addr]*list.Element), recent: list.New()}
}

// refused returns 429 while the source has failed more than failureLimit times in the last minute.
// Refused calls do not count as failures: one that goes on trying gets through as its window moves on.
func (f *failureLog) refused(source netip.Addr, now time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.sources[source]
	if !ok {
		return nil
	}
	entry := e.Value.(*sourceFailures)
	entry.drop(now)
	if len(entry.times) == 0 {
		f.recent.Remove(e)
		delete(f.sources, source)
		return nil
	}
	if len(entry.times) <= failureLimit {
		return nil
	}
	wait := entry.times[len(entry.times)-1-failureLimit] + failureWindow.Milliseconds() - now.UnixMilli()
	return &fault.Error{
		Kind: fault.TooManyFailures, Message: "Too many failed calls in the last minute. Try again later.",
		RetryAfter: int(wait/1000) + 1,
	}
}

// add records a failure.
func (f *failureLog) add(source netip.Addr, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e, ok := f.sources[source]
	if !ok {
		if len(f.sources) >= failureSources {
			last := f.recent.Back()
			delete(f.sources, last.Value.(*sourceFailures).source)
			f.recent.Remove(last)
		}
		e = f.recent.PushFront(&sourceFailures{source: source})
		f.sources[source] = e
	}
	f.recent.MoveToFront(e)
	entry := e.Value.(*sourceFailures)
	entry.drop(now)
	if len(entry.times) > failureLimit {
		entry.times = append(entry.times[:0], entry.times[1:]...)
	}
	entry.times = append(entry.times, now.UnixMilli())
}

// drop forgets what left the window.
func (e *sourceFailures) drop(now time.Time) {
	from := now.Add(-failureWindow).UnixMilli()
	n := 0
	for n < len(e.times) && e.times[n] <= from {
		n++
	}
	e.times = append(e.times[:0], e.times[n:]...)
}
