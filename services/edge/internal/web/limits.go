package web

import (
	"container/list"
	"encoding/binary"
	"net/netip"
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

// failureLog counts by source the failed calls that billing does not see: bad keys, wrong passwords, and calls with a
// management token. It keeps the times themselves, so that the window is exact. The table is bounded: the source that
// failed longest ago is evicted.
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

// refused returns 429 while the source has failed more than failureLimit times in the last minute. A refused call is no
// failure, so that a client that goes on trying gets through as the window moves on.
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
	return tooManyFailures(int(wait/1000)+1, now)
}

func tooManyFailures(retryAfter int, now time.Time) error {
	return waitFor(fault.New(fault.TooManyFailures, "More than %d calls failed in the last minute. Try again later.", failureLimit),
		failureLimit, retryAfter, now)
}

// waitFor is e with the limit that was reached and the seconds after which the same call may succeed.
func waitFor(e *fault.Error, limit int64, seconds int, now time.Time) error {
	e.Limit, e.RetryAfter, e.ResetMs = &limit, seconds, now.Add(time.Duration(seconds)*time.Second).UnixMilli()
	return e
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

// drop forgets the times that left the window.
func (e *sourceFailures) drop(now time.Time) {
	from := now.Add(-failureWindow).UnixMilli()
	n := 0
	for n < len(e.times) && e.times[n] <= from {
		n++
	}
	e.times = append(e.times[:0], e.times[n:]...)
}
