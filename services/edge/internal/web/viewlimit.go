package web

import (
	"net/netip"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"quire.dev/services/edge/internal/fault"
)

const (
	viewsPerMinute = 300
	viewSources    = 8192 // remembered at a time
)

// viewLimit bounds how many pages one source is shown: viewsPerMinute on the average, and at once.
// It is there for a machine that reads everything, and so forgets sources rather than to grow.
type viewLimit struct {
	sources *otter.Cache[netip.Addr, *rate.Limiter]
}

func newViewLimit() *viewLimit {
	return &viewLimit{sources: otter.Must(&otter.Options[netip.Addr, *rate.Limiter]{MaximumSize: viewSources})}
}

// admit returns fault.RateLimited for a source that has seen too many.
func (l *viewLimit) admit(source netip.Addr, now time.Time) error {
	limiter, ok := l.sources.GetIfPresent(source)
	if !ok {
		limiter, _ = l.sources.SetIfAbsent(source, rate.NewLimiter(rate.Limit(viewsPerMinute/60.0), viewsPerMinute))
	}
	if limiter.AllowN(now, 1) {
		return nil
	}
	return &fault.Error{
		Kind: fault.RateLimited, Message: "Too many pages in the last minute. Try again later.", RetryAfter: 1,
	}
}
