package web

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

// docs/api.md, Limits.
const (
	ratesKept = 16384 // callers remembered at a time
	ratesTold = 16384 // callers in a message, of some 16 bytes each
	tellEvery = time.Second
)

// rates limits how often each caller may do something: burst times at once, and perSecond on the average. The edges tell each
// other each second what they have let through, so that the average holds over all of them. What an edge lets through before it
// is told counts too: the caller waits for longer afterwards. The table is bounded: it forgets callers when it is full.
type rates struct {
	perSecond rate.Limit
	burst     int
	callers   *otter.Cache[event.AccountID, *rate.Limiter] // a network stands here by a keyed hash, so that no other edge learns an address

	mu    sync.Mutex
	fresh map[event.AccountID]uint32 // calls that were not told yet
}

func newRates(perSecond rate.Limit, burst int) *rates {
	return &rates{
		perSecond: perSecond, burst: burst, fresh: make(map[event.AccountID]uint32),
		callers: otter.Must(&otter.Options[event.AccountID, *rate.Limiter]{MaximumSize: ratesKept}),
	}
}

// admit counts a call. Where the caller has made too many it counts none, and returns the seconds until the next may be made.
func (r *rates) admit(caller event.AccountID, now time.Time) (seconds int) {
	limiter := r.limiter(caller)
	if !limiter.AllowN(now, 1) {
		return max(1, int(math.Ceil((1-limiter.TokensAt(now))/float64(r.perSecond))))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, told := r.fresh[caller]; told || len(r.fresh) < ratesTold {
		r.fresh[caller]++
	}
	return 0
}

func (r *rates) limiter(caller event.AccountID) *rate.Limiter {
	limiter, ok := r.callers.GetIfPresent(caller)
	if !ok {
		limiter, _ = r.callers.SetIfAbsent(caller, rate.NewLimiter(r.perSecond, r.burst))
	}
	return limiter
}

// untold returns the calls since the last time.
func (r *rates) untold() []*event.SourceCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make([]*event.SourceCount, 0, len(r.fresh))
	for caller, calls := range r.fresh {
		counts = append(counts, &event.SourceCount{Source: uint64(caller), Calls: calls})
	}
	clear(r.fresh)
	return counts
}

// heard takes what another edge has let through.
func (r *rates) heard(counts []*event.SourceCount, now time.Time) {
	for _, c := range counts {
		r.limiter(event.AccountID(c.Source)).ReserveN(now, min(int(c.Calls), r.burst))
	}
}

// docs/api.md, Limits. A change is a message of the billing journal, and billing remembers its outcome for a day, in memory.
const (
	changesAtOnce    = 300
	changesPerMinute = 1
)

// admitChange returns fault.RateLimited for an account that was changed too often.
func (s *Server) admitChange(account event.AccountID) error {
	now := s.now()
	seconds := s.changes.admit(account, now)
	if seconds == 0 {
		return nil
	}
	e := fault.New(fault.RateLimited, "An account may be changed %d times at once, and once a minute after that. Try again later.", changesAtOnce)
	return waitFor(e, changesAtOnce, seconds, now)
}

// heard takes what another edge has answered.
func (s *Server) heard(counts *event.SourceCounts) {
	now := s.now()
	s.views.sources.heard(counts.Sources, now)
	s.views.sites.heard(counts.Sites, now)
	s.keyless.heard(counts.Keyless, now)
	s.changes.heard(counts.Changes, now)
}

// tellEdges tells the other edges what this one has answered, until ctx ends.
func (s *Server) tellEdges(ctx context.Context) {
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		counts := &event.SourceCounts{
			Sources: s.views.sources.untold(), Sites: s.views.sites.untold(), Keyless: s.keyless.untold(), Changes: s.changes.untold(),
		}
		if len(counts.Sources)+len(counts.Keyless)+len(counts.Changes) == 0 { // a site is told with a source of it
			continue
		}
		if err := s.bus.TellSources(counts); err != nil {
			s.log.Warn("the other edges could not be told", slog.Any("error", err))
		}
	}
}
