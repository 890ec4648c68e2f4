package httpin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

const (
	smallBodyBytes  = 16 << 10  // bodies up to this size take no share of the budget
	smallShareBytes = 256 << 10 // larger shares leave a quarter of the budget to shares up to this size
	sourceFraction  = 3         // one source may hold a third of the budget

	budgetWait   = 5 * time.Second        // for a share of the memory for bodies
	streamWait   = time.Minute            // for a share of the memory for streams, which are held longer
	pressEvery   = 250 * time.Millisecond // interval of checking arriving bodies while a request waits
	pressedGrace = time.Second            // before pressedRate applies
	pressedRate  = 64 << 10               // minimum average rate of a body while others wait, bytes per second
)

var (
	errBusy    = errors.New("no memory for the request within its time")
	errTooSlow = errors.New("the body came too slowly while others waited for memory")
)

// budget limits the memory that concurrent requests hold, mostly for bodies. A body takes its share as it arrives. While a
// request waits for a share, bodies that arrive slowly are cut, so that a crowd of slow clients harms itself and not others.
// Safe for concurrent use.
type budget struct {
	total     int64
	perSource int64
	patience  time.Duration // longest wait of take

	mu      sync.Mutex
	all     holding
	sources map[netip.Prefix]*holding
	shares  map[*share]struct{} // shares that hold bytes or wait
	waiting []*claim            // oldest first
}

// holding is the total of several shares.
type holding struct {
	shares int
	bytes  int64
	active int // shares that hold bytes and aren't waiting for more
}

// share is the memory of one request, held until its handler returns. The budget's lock guards its fields.
type share struct {
	source netip.Prefix
	bytes  int64
	body   *Body  // of the request, until complete; nil: none
	claim  *claim // pending; nil: none
}

func (s *share) active() bool { return s.bytes > 0 && s.claim == nil }

// toCome is how many bytes of the request's body have not arrived yet.
func (s *share) toCome() int64 {
	switch {
	case s.body == nil:
		return 0
	case s.body.length < 0:
		return math.MaxInt64
	}
	return s.body.length - s.body.clock.read.Load()
}

// claim is a pending request for more bytes.
type claim struct {
	share *share
	bytes int64
	done  chan error // buffered
}

func newBudget(total int64, patience time.Duration) *budget {
	return &budget{
		patience: patience, total: total, perSource: max(total/sourceFraction, 1),
		sources: make(map[netip.Prefix]*holding), shares: make(map[*share]struct{}),
	}
}

// take adds bytes to a share, waiting at most patience. It fails with errBusy, errTooSlow if the body was cut, or ctx's
// error.
func (b *budget) take(ctx context.Context, s *share, bytes int64) error {
	b.mu.Lock()
	if _, known := b.shares[s]; !known {
		b.shares[s] = struct{}{}
		if b.sources[s.source] == nil {
			b.sources[s.source] = &holding{}
		}
		b.sources[s.source].shares++
	}
	bytes = min(bytes, b.perSource-s.bytes) // a request that is alone always fits
	if b.fits(s, bytes) {
		b.update(s, func() { s.bytes += bytes })
		b.mu.Unlock()
		return nil
	}
	c := &claim{share: s, bytes: bytes, done: make(chan error, 1)}
	b.waiting = append(b.waiting, c)
	b.update(s, func() { s.claim = c })
	b.press()
	b.unstick()
	b.mu.Unlock()
	return b.wait(ctx, c)
}

func (b *budget) wait(ctx context.Context, c *claim) error {
	last := time.NewTimer(b.patience)
	defer last.Stop()
	tick := time.NewTicker(pressEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-c.done:
			return err
		case <-tick.C:
			b.withLock(b.press)
		case <-last.C:
			b.withLock(func() { b.end(c, errBusy) })
		case <-ctx.Done():
			b.withLock(func() { b.end(c, ctx.Err()) })
		}
	}
}

func (b *budget) withLock(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// complete marks the body of a share as arrived or no longer read, so that it is not cut.
func (b *budget) complete(s *share) { b.withLock(func() { s.body = nil }) }

// release returns a share to the budget.
func (b *budget) release(s *share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.shares[s]; !known {
		return
	}
	b.update(s, func() { s.bytes = 0 })
	delete(b.shares, s)
	source := b.sources[s.source]
	if source.shares--; source.shares == 0 {
		delete(b.sources, s.source)
	}
	for _, c := range slices.Clone(b.waiting) {
		if b.fits(c.share, c.bytes) {
			b.end(c, nil)
		}
	}
	b.unstick()
}

// The methods below require the lock.

// room is the total that all shares may hold when one grows to so many bytes.
func (b *budget) room(bytes int64) int64 {
	if bytes > smallShareBytes {
		return b.total - b.total/4
	}
	return b.total
}

func (b *budget) fits(s *share, more int64) bool {
	return b.all.bytes+more <= b.room(s.bytes+more) && b.fitsSource(s, more)
}

func (b *budget) fitsSource(s *share, more int64) bool {
	return b.sources[s.source].bytes+more <= b.perSource
}

// update changes a share and the totals that include it.
func (b *budget) update(s *share, change func()) {
	bytes, active := s.bytes, s.active()
	change()
	for _, h := range []*holding{&b.all, b.sources[s.source]} {
		h.bytes += s.bytes - bytes
		if active {
			h.active--
		}
		if s.active() {
			h.active++
		}
	}
}

// end resolves a pending claim; a nil err grants it. A claim that was resolved before is left alone.
func (b *budget) end(c *claim, err error) {
	at := slices.Index(b.waiting, c)
	if at < 0 {
		return
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	b.update(c.share, func() {
		c.share.claim = nil
		if err == nil {
			c.share.bytes += c.bytes
		}
	})
	c.done <- err
}

// press cuts bodies that arrive too slowly: only bodies of one source if that source alone blocks the waiting requests, else
// bodies of any source.
func (b *budget) press() {
	everybody, sources := false, map[netip.Prefix]bool{}
	for _, c := range b.waiting {
		if b.fitsSource(c.share, c.bytes) {
			everybody = true
		}
		sources[c.share.source] = true
	}
	if len(sources) == 0 {
		return
	}
	for s := range b.shares {
		if s.body == nil || s.bytes == 0 || !everybody && !sources[s.source] || !s.body.clock.slow() {
			continue
		}
		s.body.cut()
		s.body = nil
		if s.claim != nil {
			b.end(s.claim, errTooSlow)
		}
	}
}

// unstick resolves a deadlock of claims that block only each other: it refuses claims until a share is active again and its
// request can proceed. It starts with the body that has the most still to come, then the latest.
func (b *budget) unstick() {
	waiting := slices.Clone(b.waiting)
	slices.Reverse(waiting)
	slices.SortStableFunc(waiting, func(one, two *claim) int { return cmp.Compare(two.share.toCome(), one.share.toCome()) })
	for _, c := range waiting {
		blocking := &b.all
		if !b.fitsSource(c.share, c.bytes) {
			blocking = b.sources[c.share.source]
		}
		if blocking.active == 0 && c.share.bytes > 0 {
			b.end(c, errBusy)
		}
	}
}

// Reserve takes size bytes of Config.BodyBudgetBytes until the handler returns. After 5 seconds of waiting it fails with 503.
// A request whose body arrives too slowly while others wait fails with 408.
func (s *Server) Reserve(c *fiber.Ctx, size int64) error {
	return s.reserve(c, s.budget, &connOf(c).current.share, size)
}

// ReserveStream is Reserve for the buffers of a streamed body: it takes from Config.StreamBudgetBytes, and waits for a
// minute.
func (s *Server) ReserveStream(c *fiber.Ctx, size int64) error {
	return s.reserve(c, s.streams, &connOf(c).current.stream, size)
}

func (s *Server) reserve(c *fiber.Ctx, b *budget, to **share, size int64) error {
	if *to == nil {
		*to = &share{source: Site(s.Source(c))}
		if body := BodyOf(c); body != nil && !body.done {
			(*to).body = body
		}
	}
	err := b.take(s.ctx, *to, size)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooSlow):
		return tooSlow(err)
	}
	return unavailable(httperr.UnavailableMessage, err)
}

func tooSlow(cause error) *httperr.Error {
	return &httperr.Error{
		Status: fiber.StatusRequestTimeout, Code: httperr.CodeRequestTimeout, Cause: cause,
		Message: fmt.Sprintf("The request body arrived too slowly while other requests waited: the limit is then %v plus a second per %d KB.",
			pressedGrace, pressedRate>>10),
	}
}
