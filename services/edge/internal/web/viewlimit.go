package web

import (
	"context"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

// docs/api.md, Limits.
const (
	viewsPerMinute = 300
	sitesViews     = 16 * viewsPerMinute // of an IPv6 /48, which has many sources
	viewSources    = 16384               // remembered at a time
	tellEvery      = time.Second
	viewsTold      = 16384 // sources in a message, of some 16 bytes each
)

// viewLimit limits how many pages and downloads by a link one source sees: viewsPerMinute on the average, and at once. The edges
// tell each other each second what they have answered, so that the average holds over all of them. What an edge answers before
// it is told counts too: the source waits for longer afterwards. The table is bounded: it forgets sources when it is full, since
// it is only there for machines that read everything.
type viewLimit struct {
	hash    func(network []byte) event.AccountID // keyed, so that no other edge learns an address
	sources *otter.Cache[viewer, *rate.Limiter]

	mu    sync.Mutex
	fresh map[viewer]uint32 // views that were not told yet
}

// viewer is a source, or the site of sources.
type viewer struct {
	id   event.AccountID
	site bool
}

func (v viewer) views() int {
	if v.site {
		return sitesViews
	}
	return viewsPerMinute
}

func newViewLimit(hash func(network []byte) event.AccountID) *viewLimit {
	return &viewLimit{
		hash: hash, fresh: make(map[viewer]uint32),
		sources: otter.Must(&otter.Options[viewer, *rate.Limiter]{MaximumSize: viewSources}),
	}
}

// admit returns fault.RateLimited for a source that has seen too many, or whose site has.
func (l *viewLimit) admit(source netip.Addr, now time.Time) error {
	viewers := make([]viewer, 1, 2)
	viewers[0].id = l.hash(networkBytes(source))
	if source.Is6() {
		viewers = append(viewers, viewer{siteID(l.hash, source), true})
	}
	for _, v := range viewers {
		limiter := l.limiter(v)
		if !limiter.AllowN(now, 1) {
			wait := math.Ceil((1 - limiter.TokensAt(now)) / float64(limiter.Limit()))
			return waitFor(fault.New(fault.RateLimited, "More than %d pages in the last minute. Try again later.", v.views()),
				int64(v.views()), max(int(wait), 1), now)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, v := range viewers {
		if _, told := l.fresh[v]; told || len(l.fresh) < viewsTold {
			l.fresh[v]++
		}
	}
	return nil
}

func (l *viewLimit) limiter(v viewer) *rate.Limiter {
	limiter, ok := l.sources.GetIfPresent(v)
	if !ok {
		limiter, _ = l.sources.SetIfAbsent(v, rate.NewLimiter(rate.Limit(v.views())/60, v.views()))
	}
	return limiter
}

// untold returns the views since the last call.
func (l *viewLimit) untold() *event.SourceCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := &event.SourceCounts{}
	for v, calls := range l.fresh {
		count := &event.SourceCount{Source: uint64(v.id), Calls: calls}
		if v.site {
			counts.Sites = append(counts.Sites, count)
		} else {
			counts.Sources = append(counts.Sources, count)
		}
	}
	clear(l.fresh)
	return counts
}

// heard takes the views that another edge has answered.
func (l *viewLimit) heard(counts *event.SourceCounts, now time.Time) {
	take := func(counts []*event.SourceCount, site bool) {
		for _, c := range counts {
			v := viewer{event.AccountID(c.Source), site}
			l.limiter(v).ReserveN(now, min(int(c.Calls), v.views()))
		}
	}
	take(counts.Sources, false)
	take(counts.Sites, true)
}

// heard takes what another edge has answered.
func (s *Server) heard(counts *event.SourceCounts) {
	now := s.now()
	s.views.heard(counts, now)
	s.keyless.heard(counts.Keyless, now)
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
		counts := s.views.untold()
		counts.Keyless = s.keyless.untold()
		if len(counts.Sources)+len(counts.Keyless) == 0 { // a site is told with a source of it
			continue
		}
		if err := s.bus.TellSources(counts); err != nil {
			s.log.Warn("the other edges could not be told", slog.Any("error", err))
		}
	}
}
