package web

import (
	"context"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

const (
	sitesSources = 16    // an IPv6 /48 may make as many keyless quick pastes as so many of its sources
	keylessSites = 16384 // remembered at a time
)

// keylessLimit limits the keyless creations of an IPv6 /48, whose 65,536 sources billing counts one by one. It is not exact: an
// edge forgets when it restarts, and hears of the other edges' creations each second.
type keylessLimit struct {
	hash  func(network []byte) event.AccountID // keyed, so that no other edge learns an address
	sites *otter.Cache[event.AccountID, *rate.Limiter]
	limit atomic.Int64 // of a source, as billing last said; 0: it has not

	mu    sync.Mutex
	fresh map[event.AccountID]uint32 // creations that were not told yet
}

func newKeylessLimit(hash func(network []byte) event.AccountID) *keylessLimit {
	return &keylessLimit{
		hash: hash, fresh: make(map[event.AccountID]uint32),
		sites: otter.Must(&otter.Options[event.AccountID, *rate.Limiter]{MaximumSize: keylessSites}),
	}
}

// siteID is the hash of an IPv6 /48.
func siteID(hash func(network []byte) event.AccountID, source netip.Addr) event.AccountID {
	site := httpin.Site(source)
	return hash(site.Addr().AsSlice()[:site.Bits()/8])
}

// refused returns fault.AnonymousLimit where the source's site has made too many.
func (l *keylessLimit) refused(source netip.Addr, now time.Time) error {
	if !source.Is6() {
		return nil
	}
	limiter, ok := l.sites.GetIfPresent(siteID(l.hash, source))
	if !ok {
		return nil
	}
	tokens := limiter.TokensAt(now)
	if tokens >= 1 {
		return nil
	}
	limit := int64(limiter.Burst())
	e := fault.New(fault.AnonymousLimit, "Anonymous limit of %d quick pastes per 24 hours reached for this IPv6 /48. Use an API key to continue.", limit)
	return waitFor(e, limit, int(math.Ceil((1-tokens)/float64(limiter.Limit()))), now)
}

// made counts a creation. limit is that of a source.
func (l *keylessLimit) made(source netip.Addr, limit int64, now time.Time) {
	if !source.Is6() || limit <= 0 {
		return
	}
	l.limit.Store(limit)
	id := siteID(l.hash, source)
	l.take(id, 1, now)
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, told := l.fresh[id]; told || len(l.fresh) < ratesTold {
		l.fresh[id]++
	}
}

// take counts creations of a site. It drops them where billing has not said what the limit is.
func (l *keylessLimit) take(id event.AccountID, creations uint32, now time.Time) {
	burst := int(min(l.limit.Load(), math.MaxInt32)) * sitesSources
	if burst == 0 {
		return
	}
	limiter, ok := l.sites.GetIfPresent(id)
	if !ok || limiter.Burst() != burst {
		limiter = rate.NewLimiter(rate.Limit(burst)/rate.Limit(day.Seconds()), burst)
		l.sites.Set(id, limiter)
	}
	limiter.ReserveN(now, min(int(creations), burst))
}

// untold returns the creations since the last call.
func (l *keylessLimit) untold() []*event.SourceCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	counts := make([]*event.SourceCount, 0, len(l.fresh))
	for id, calls := range l.fresh {
		counts = append(counts, &event.SourceCount{Source: uint64(id), Calls: calls})
	}
	clear(l.fresh)
	return counts
}

// heard takes the creations that another edge has answered.
func (l *keylessLimit) heard(counts []*event.SourceCount, now time.Time) {
	for _, c := range counts {
		l.take(event.AccountID(c.Source), c.Calls, now)
	}
}

// othersUse is what a keyless caller has used of its allowance under the other secrets that are accepted. While a secret is
// replaced, its network has a pseudo-account by each of them, and billing counts each by itself.
type othersUse struct {
	used         uint32
	resetSeconds uint32 // until there is one less; 0: nothing is used
}

func (s *Server) othersUse(ctx context.Context, c *call) (o othersUse, err error) {
	for _, network := range s.secret.OtherNetworks(s.networkBytes(c.Ctx)) {
		a, err := s.allowanceOf(ctx, network)
		if err != nil {
			return o, err
		}
		o.used += a.GetLimit() - a.GetRemaining()
		o.resetSeconds = sooner(o.resetSeconds, a.GetResetSeconds())
	}
	return o, nil
}

// allowanceOf is nil where billing has no prices yet.
func (s *Server) allowanceOf(ctx context.Context, network event.AccountID) (*event.AllowanceAnswer, error) {
	answer, err := s.bus.Query(ctx, network, &event.Query{Query: &event.Query_Allowance{Allowance: &event.AllowanceQuery{}}})
	return answer.GetAllowance(), err
}

// sooner is the smaller of two times of which 0 is none.
func sooner(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// admitKeyless is start and wait for a keyless creation. What its network has made under other secrets counts too: it is asked
// for before, so that a call that is refused is no admission, and holds for those that come at the same time.
func (m *metered) admitKeyless() error {
	s, source := m.s, m.s.http.Source(m.c.Ctx)
	if err := s.keyless.refused(source, s.now()); err != nil {
		m.c.Set(headerChargeSource, "none")
		return err
	}
	if !s.secret.Several() {
		return m.start().wait()
	}
	others, err := s.othersUse(s.ctx, m.c)
	if err != nil {
		return err
	}
	if others.used > 0 {
		own, err := s.allowanceOf(s.ctx, m.admission.Account)
		if err != nil {
			return err
		}
		if own != nil && own.Remaining <= others.used {
			return m.refusedFor(int64(own.Limit), sooner(own.ResetSeconds, others.resetSeconds))
		}
	}
	if err := m.start().wait(); err != nil || others.used == 0 {
		return err
	}
	v := m.verdict
	reset := sooner(v.ResetSeconds, others.resetSeconds)
	m.verdict = &bus.Verdict{TimeMs: v.TimeMs, Verdict: &event.Verdict{
		Decision: v.Decision, Charge: v.Charge, Limit: v.Limit, Remaining: v.Remaining - int64(others.used), ResetSeconds: reset,
	}}
	if m.verdict.Remaining >= 0 {
		return nil
	}
	return m.giveBack(m.refusedFor(v.Limit, reset), false)
}

// refusedFor is the refusal of a network that has used all of its allowance.
func (m *metered) refusedFor(limit int64, resetSeconds uint32) error {
	return m.refused(&bus.Verdict{TimeMs: m.s.now().UnixMilli(), Verdict: &event.Verdict{
		Decision: event.Decision_ANONYMOUS_LIMIT, Limit: limit, RetryAfterSeconds: resetSeconds, ResetSeconds: resetSeconds,
	}})
}
