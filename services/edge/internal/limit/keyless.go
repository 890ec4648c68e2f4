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

// Keyless limits the keyless creations of an IPv6 /48, whose 65,536 sources billing counts one by one. It is not exact: an
// edge forgets when it restarts, and hears of the other edges' creations each second.
type Keyless struct {
	hash  Hash
	sites *otter.Cache[event.AccountID, *rate.Limiter]
	limit atomic.Int64 // of a source, as billing last said; 0: it has not

	mu    sync.Mutex
	fresh map[event.AccountID]uint32 // creations that the other edges were not notified of yet
}

// NewKeyless makes a limit, which holds once Count has learnt what a source may do.
func NewKeyless(hash Hash) *Keyless {
	return &Keyless{
		hash: hash, fresh: make(map[event.AccountID]uint32),
		sites: otter.Must(&otter.Options[event.AccountID, *rate.Limiter]{MaximumSize: maxKeylessSites}),
	}
}

// Wait returns the limit and the seconds to wait if the source's site has made too many; the seconds are 0 otherwise.
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

// Count counts a creation. limit is that of a source.
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

// take counts creations of a site. It drops them where billing has not said what the limit is.
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

// Drain returns the creations since the last time.
func (l *Keyless) Drain() []*event.SourceCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	return drain(l.fresh)
}

// Merge counts the creations that another edge has answered.
func (l *Keyless) Merge(counts []*event.SourceCount, now time.Time) {
	for _, c := range counts {
		l.take(event.AccountID(c.Source), c.Calls, now)
	}
}
