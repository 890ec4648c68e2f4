package web

import (
	"net/netip"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

// docs/api.md, Limits.
const (
	viewsPerMinute = 300
	sitesViews     = 16 * viewsPerMinute // of an IPv6 /48, which has many sources
)

// viewLimit limits how many pages and downloads by a link one source sees: viewsPerMinute on the average, and at once.
type viewLimit struct {
	hash           func(network []byte) event.AccountID
	sources, sites *rates
}

func newViewLimit(hash func(network []byte) event.AccountID) *viewLimit {
	return &viewLimit{hash: hash, sources: newRates(viewsPerMinute/60.0, viewsPerMinute), sites: newRates(sitesViews/60.0, sitesViews)}
}

// admit returns fault.RateLimited for a source that has seen too many, or whose site has.
func (l *viewLimit) admit(source netip.Addr, now time.Time) error {
	if seconds := l.sources.admit(l.hash(networkBytes(source)), now); seconds > 0 {
		return tooManyViews(viewsPerMinute, seconds, now)
	}
	if !source.Is6() {
		return nil
	}
	if seconds := l.sites.admit(siteID(l.hash, source), now); seconds > 0 {
		return tooManyViews(sitesViews, seconds, now)
	}
	return nil
}

func tooManyViews(limit int64, seconds int, now time.Time) error {
	return waitFor(fault.New(fault.RateLimited, "More than %d pages in the last minute. Try again later.", limit), limit, seconds, now)
}
