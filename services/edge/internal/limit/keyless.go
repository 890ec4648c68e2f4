package limit

import (
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"quire.dev/pkg/event"
)

const (
	maxKeylessSites = 16384 // remembered at a time
	keylessWindow   = 24 * time.Hour
)

// Keyless limits anonymous creations per IPv6 /48; billing counts each of its 65,536 sources separately. The limit is
// approximate: an edge forgets it on restart and learns of other edges' creations once per second.
type Keyless struct {
	hash  Hash
	sites *otter.Cache[event.AccountID, *rate.Limiter]
	limit atomic.Int64 // per source, as last reported by billing; 0 if unknown

	mu    sync.Mutex
	fresh map[event.AccountID]uint32 // creations not yet sent to the other edges
}

// NewKeyless returns a limit that takes effect once Count has learned the limit per source.
func NewKeyless(hash Hash) *Keyless {
	return &Keyless{
		hash: hash, fresh: make(map[event.AccountID]uint32),
		sites: otter.Must(&otter.Options[event.AccountID, *rate.Limiter]{MaximumSize: maxKeylessSites}),
	}
}

// Wait returns the limit and the seconds to wait; 0 seconds if the source's site is below the limit.
func (l *Keyless) Wait(source netip.Addr, now time.Time) (limit int64, seconds int) {
	if !source.Is6() {
		return 0, 0
	}
	limiter, ok := l.sites.GetIfPresent(l.hash.site(source))
	if !ok {
		return 0, 0
	}
	tokens := limiter.TokensAt(now)
	if tokens >= 1 {
		return 0, 0
	}
	return int64(limiter.Burst()), int(math.Ceil((1 - tokens) / float64(limiter.Limit())))
}

// Count counts a creation. limit is the current limit per source.
func (l *Keyless) Count(source netip.Addr, limit int64, now time.Time) {
	if !source.Is6() || limit <= 0 {
		return
	}
	l.limit.Store(limit)
	id := l.hash.site(source)
	l.take(id, 1, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.fresh[id]; there || len(l.fresh) < maxDrained {
		l.fresh[id]++
	}
}

// take counts creations of a site, or drops them while the limit is unknown.
func (l *Keyless) take(id event.AccountID, creations uint32, now time.Time) {
	burst := int(min(l.limit.Load(), math.MaxInt32)) * sourcesOfSite
	if burst == 0 {
		return
	}
	limiter, ok := l.sites.GetIfPresent(id)
	if !ok || limiter.Burst() != burst {
		limiter = rate.NewLimiter(rate.Limit(burst)/rate.Limit(keylessWindow.Seconds()), burst)
		l.sites.Set(id, limiter)
	}
	limiter.ReserveN(now, min(int(creations), burst))
}

// Drain returns the creations since the last Drain.
func (l *Keyless) Drain() []*event.SourceCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	return drain(l.fresh)
}

// Merge counts creations served by another edge.
func (l *Keyless) Merge(counts []*event.SourceCount, now time.Time) {
	for _, c := range counts {
		l.take(event.AccountID(c.Source), c.Calls, now)
	}
}
