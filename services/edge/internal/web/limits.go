package web

import (
	"container/list"
	"encoding/binary"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

// docs/api.md, Limits.
const (
	failureLimit   = 100
	failureWindow  = time.Minute
	failureSources = 8192 // remembered at a time
)

// accountSource stands for an account in a failureLog. No address of a client is the same: IPv6 sources are of a /64, with
// zeros behind it.
func accountSource(id event.AccountID) netip.Addr {
	var b [16]byte
	b[0] = 0xfc
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	return netip.AddrFrom16(b)
}

// failureLog counts failed calls that billing does not see, by what they have in common: bad keys, wrong passwords and calls
// with a management token by source, guessed passwords by what they open. It keeps the times themselves, so that the window
// is exact. The table is bounded: the entry that failed longest ago is evicted. Each edge counts what it sees itself.
type failureLog[K comparable] struct {
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

func newFailureLog[K comparable](limit int, window time.Duration) *failureLog[K] {
	return &failureLog[K]{limit: limit, window: window, sources: make(map[K]*list.Element), recent: list.New()}
}

// refused returns 429 while the source has failed more often than the limit in the last minute. A refused call is no
// failure, so that a client that goes on trying gets through as the window moves on.
func (f *failureLog[K]) refused(source K, now time.Time) error {
	if seconds := f.wait(source, now); seconds > 0 {
		return tooManyFailures(seconds, now)
	}
	return nil
}

// wait is the seconds until the source may call again; 0 where it may.
func (f *failureLog[K]) wait(source K, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waitLocked(source, now)
}

// begin records a failure before it is known to be one, for takeBack otherwise. Where the source must wait it records none, and
// returns the seconds.
func (f *failureLog[K]) begin(source K, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seconds := f.waitLocked(source, now); seconds > 0 {
		return seconds
	}
	f.addLocked(source, now)
	return 0
}

func (f *failureLog[K]) waitLocked(source K, now time.Time) int {
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

func tooManyFailures(retryAfter int, now time.Time) error {
	message := "More than " + strconv.Itoa(failureLimit) + " calls failed in the last minute. Try again later."
	return waitFor(&fault.Error{Kind: fault.TooManyFailures, Message: message}, failureLimit, retryAfter, now)
}

// waitFor is e with the limit that was reached and the seconds after which the same call may succeed.
func waitFor(e *fault.Error, limit int64, seconds int, now time.Time) error {
	e.Limit, e.RetryAfter, e.ResetMs = &limit, seconds, now.Add(time.Duration(seconds)*time.Second).UnixMilli()
	return e
}

// add records a failure.
func (f *failureLog[K]) add(source K, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.addLocked(source, now)
}

func (f *failureLog[K]) addLocked(source K, now time.Time) {
	e, ok := f.sources[source]
	if !ok {
		if len(f.sources) >= failureSources {
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

// takeBack undoes an add.
func (f *failureLog[K]) takeBack(source K, added time.Time) {
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
