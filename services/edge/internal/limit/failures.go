package limit

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

const maxFailureKeys = 8192 // remembered at a time

// Failures counts failed calls that billing does not see: bad keys, wrong passwords and management tokens by source,
// guessed passwords by the document they protect. The sliding window is exact, since it keeps each failure's time. Refused
// calls don't count as failures, so that a client that keeps trying gets through once the window has moved on. The table is
// bounded and evicts the entry with the oldest last failure. Each edge counts on its own.
type Failures[K comparable] struct {
	limit  int
	window time.Duration

	mu      sync.Mutex
	sources map[K]*list.Element
	recent  *list.List // of *sourceFailures[K], the latest first
}

type sourceFailures[K comparable] struct {
	source K
	times  []int64 // Unix milliseconds, oldest first
}

// NewFailures limits failures per source within a sliding window.
func NewFailures[K comparable](limit int, window time.Duration) *Failures[K] {
	return &Failures[K]{limit: limit, window: window, sources: make(map[K]*list.Element), recent: list.New()}
}

// Wait is the number of seconds until the source may call again; 0 if it may now.
func (f *Failures[K]) Wait(source K, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waitLocked(source, now)
}

// Begin records a failure in advance; TakeBack undoes it if the call succeeds. If the source has to wait, it records nothing
// and returns the seconds.
func (f *Failures[K]) Begin(source K, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seconds := f.waitLocked(source, now); seconds > 0 {
		return seconds
	}
	f.addLocked(source, now)
	return 0
}

func (f *Failures[K]) waitLocked(source K, now time.Time) int {
	e, ok := f.sources[source]
	if !ok {
		return 0
	}
	entry := e.Value.(*sourceFailures[K])
	entry.drop(now.Add(-f.window))
	if len(entry.times) == 0 {
		f.recent.Remove(e)
		delete(f.sources, source)
		return 0
	}
	if len(entry.times) <= f.limit {
		return 0
	}
	wait := entry.times[len(entry.times)-1-f.limit] + f.window.Milliseconds() - now.UnixMilli()
	return int(wait/1000) + 1
}

// Add records a failure.
func (f *Failures[K]) Add(source K, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(source, now)
}

func (f *Failures[K]) addLocked(source K, now time.Time) {
	e, ok := f.sources[source]
	if !ok {
		if len(f.sources) >= maxFailureKeys {
			last := f.recent.Back()
			delete(f.sources, last.Value.(*sourceFailures[K]).source)
			f.recent.Remove(last)
		}
		e = f.recent.PushFront(&sourceFailures[K]{source: source})
		f.sources[source] = e
	}
	f.recent.MoveToFront(e)
	entry := e.Value.(*sourceFailures[K])
	entry.drop(now.Add(-f.window))
	if len(entry.times) > f.limit {
		entry.times = append(entry.times[:0], entry.times[1:]...)
	}
	entry.times = append(entry.times, now.UnixMilli())
}

// TakeBack undoes an Add or a Begin.
func (f *Failures[K]) TakeBack(source K, added time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.sources[source]; ok {
		entry := e.Value.(*sourceFailures[K])
		if i := slices.Index(entry.times, added.UnixMilli()); i >= 0 {
			entry.times = slices.Delete(entry.times, i, i+1)
		}
	}
}

// drop forgets the times up to from.
func (e *sourceFailures[K]) drop(from time.Time) {
	n := 0
	for n < len(e.times) && e.times[n] <= from.UnixMilli() {
		n++
	}
	e.times = append(e.times[:0], e.times[n:]...)
}
