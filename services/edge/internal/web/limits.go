package web

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/limit"
)

// docs/api.md, Limits.
const (
	failureLimit  = 100
	failureWindow = time.Minute

	signInLimit        = 100 // of an address, from sources that nobody has signed in from
	signInWindow       = time.Hour
	signInSourceLimit  = 10 // of an address, from one source
	signInSourceWindow = 15 * time.Minute

	viewsPerMinute = 300 // pages and downloads by a link

	// A change is a message of the billing journal, and billing remembers its outcome for a day, in memory.
	changesAtOnce    = 300
	changesPerMinute = 1

	notifyEvery = time.Second
)

// limits are how often callers may do what billing does not count.
type limits struct {
	failures *limit.Failures[netip.Addr] // of sources, and of accounts: see accountSource
	signIns  *limit.Guesses              // by address
	guesses  *limit.Guesses              // of passwords of documents, by id

	webhookTries *limit.Failures[event.AccountID]

	views     *limit.Networks
	changes   *limit.Rate // of accounts
	keyless   *limit.Keyless
	unmetered *limit.Unmetered // nil: there is none
}

func newLimits(hash limit.Hash, unmeteredRate int) limits {
	return limits{
		failures: limit.NewFailures[netip.Addr](failureLimit, failureWindow),
		signIns:  limit.NewGuesses(signInLimit, signInWindow, signInSourceLimit, signInSourceWindow),
		guesses:  limit.NewGuesses(failureLimit, failureWindow, 0, 0),

		webhookTries: limit.NewFailures[event.AccountID](webhookTries-1, webhookWindow),

		views:     limit.NewNetworks(hash, viewsPerMinute/60.0, viewsPerMinute, viewsPerMinute),
		changes:   limit.NewRate(changesPerMinute/60.0, changesAtOnce),
		keyless:   limit.NewKeyless(hash),
		unmetered: limit.NewUnmetered(hash, unmeteredRate),
	}
}

// accountSource stands for an account among the sources of failures. No address of a client is the same: IPv6 sources are of a /64,
// with zeros behind it.
func accountSource(id event.AccountID) netip.Addr {
	var b [16]byte
	b[0] = 0xfc
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	return netip.AddrFrom16(b)
}

// waitFor is e with the limit that was reached and the seconds after which the same call may succeed.
func waitFor(e *fault.Error, limit int64, seconds int, now time.Time) error {
	e.Limit, e.RetryAfter, e.ResetMs = &limit, seconds, now.Add(time.Duration(seconds)*time.Second).UnixMilli()
	return e
}

func tooManyFailures(retryAfter int, now time.Time) error {
	message := "More than " + strconv.Itoa(failureLimit) + " calls failed in the last minute. Try again later."
	return waitFor(&fault.Error{Kind: fault.TooManyFailures, Message: message}, failureLimit, retryAfter, now)
}

// checkFailures returns fault.TooManyFailures while the source has failed too often.
func (s *Server) checkFailures(source netip.Addr) error {
	now := s.now()
	if seconds := s.failures.Wait(source, now); seconds > 0 {
		return tooManyFailures(seconds, now)
	}
	return nil
}

// admitView returns fault.RateLimited for a source that has seen too many pages, or whose site has.
func (s *Server) admitView(source netip.Addr) error {
	now := s.now()
	limit, seconds := s.views.Admit(source, now)
	if seconds == 0 {
		return nil
	}
	return waitFor(fault.New(fault.RateLimited, "More than %d pages in the last minute. Try again later.", limit), limit, seconds, now)
}

// admitChange returns fault.RateLimited for an account that was changed too often.
func (s *Server) admitChange(account event.AccountID) error {
	now := s.now()
	seconds := s.changes.Admit(account, now)
	if seconds == 0 {
		return nil
	}
	e := fault.New(fault.RateLimited, "An account may be changed %d times at once, and once a minute after that. Try again later.", changesAtOnce)
	return waitFor(e, changesAtOnce, seconds, now)
}

// guessPassword counts a try to sign in with an address. It is the same whether the address has an account or not.
func (s *Server) guessPassword(c *call, email string) (*limit.Guess, error) {
	now := s.now()
	g, wait := s.signIns.Begin(event.EmailID(email), s.http.Source(c.Ctx), now)
	if wait > 0 {
		return nil, waitFor(fault.New(fault.TooManyFailures, "Too many sign-ins with this address failed. Try again later."), signInSourceLimit, wait, now)
	}
	return g, nil
}

// mergeCounts counts what another edge has answered.
func (s *Server) mergeCounts(counts *event.SourceCounts) {
	now := s.now()
	s.views.Sources.Merge(counts.Sources, now)
	s.views.Sites.Merge(counts.Sites, now)
	s.keyless.Merge(counts.Keyless, now)
	s.changes.Merge(counts.Changes, now)
	s.unmetered.Merge(counts.Unmetered, counts.UnmeteredSites, now)
}

// notifyEdges notifies the other edges of what this one has answered, until ctx ends.
func (s *Server) notifyEdges(ctx context.Context) {
	tick := time.NewTicker(notifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		counts := &event.SourceCounts{
			Sources: s.views.Sources.Drain(), Sites: s.views.Sites.Drain(), Keyless: s.keyless.Drain(), Changes: s.changes.Drain(),
		}
		counts.Unmetered, counts.UnmeteredSites = s.unmetered.Drain()
		if len(counts.Sources)+len(counts.Keyless)+len(counts.Changes)+len(counts.Unmetered) == 0 { // a site never comes without a source
			continue
		}
		if err := s.bus.TellSources(counts); err != nil {
			s.log.Warn("the other edges could not be notified", slog.Any("error", err))
		}
	}
}
