package endpoint

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

	signInLimit        = 100 // to one address, from sources without a previous sign-in
	signInWindow       = time.Hour
	signInSourceLimit  = 10 // to one address, from one source
	signInSourceWindow = 15 * time.Minute

	viewsPerMinute = 300 // pages and linked downloads

	// Each change is a message of the billing journal, and billing keeps its outcome in memory for a day.
	changesAtOnce    = 300
	changesPerMinute = 1

	WebhookTries  = 30 // tests and redeliveries of an account per webhookWindow, on each edge
	webhookWindow = time.Minute

	notifyEvery = time.Second
)

// Limits limit what callers do without billing counting it.
type Limits struct {
	Failures *limit.Failures[netip.Addr] // of sources, and of accounts: see AccountSource
	signIns  *limit.Guesses              // by address
	Guesses  *limit.Guesses              // of documents' passwords, by id

	WebhookTries *limit.Failures[event.AccountID]

	Views     *limit.Networks
	changes   *limit.Rate // of accounts
	Keyless   *limit.Keyless
	unmetered *limit.Unmetered // nil: no limit
}

func newLimits(hash limit.Hash, unmeteredRate int) Limits {
	return Limits{
		Failures: limit.NewFailures[netip.Addr](failureLimit, failureWindow),
		signIns:  limit.NewGuesses(signInLimit, signInWindow, signInSourceLimit, signInSourceWindow),
		Guesses:  limit.NewGuesses(failureLimit, failureWindow, 0, 0),

		WebhookTries: limit.NewFailures[event.AccountID](WebhookTries-1, webhookWindow),

		Views:     limit.NewNetworks(hash, viewsPerMinute/60.0, viewsPerMinute, viewsPerMinute),
		changes:   limit.NewRate(changesPerMinute/60.0, changesAtOnce),
		Keyless:   limit.NewKeyless(hash),
		unmetered: limit.NewUnmetered(hash, unmeteredRate),
	}
}

// AccountSource maps an account to a source for counting failures. No client has that address: IPv6 sources are the first
// address of a /64, with zeros at the end.
func AccountSource(id event.AccountID) netip.Addr {
	var b [16]byte
	b[0] = 0xfc
	binary.BigEndian.PutUint64(b[8:], uint64(id))
	return netip.AddrFrom16(b)
}

// WaitFor adds to e the limit reached and the seconds until a retry may succeed.
func WaitFor(e *fault.Error, limit int64, seconds int, now time.Time) error {
	e.Limit, e.RetryAfter, e.ResetMs = &limit, seconds, now.Add(time.Duration(seconds)*time.Second).UnixMilli()
	return e
}

// TooManyFailures is the answer to a source that has to wait so many seconds.
func TooManyFailures(retryAfter int, now time.Time) error {
	message := "More than " + strconv.Itoa(failureLimit) + " calls failed in the last minute. Try again later."
	return WaitFor(&fault.Error{Kind: fault.TooManyFailures, Message: message}, failureLimit, retryAfter, now)
}

// CheckFailures fails with fault.TooManyFailures if the source has failed too often.
func (s *Base) CheckFailures(source netip.Addr) error {
	now := s.Now()
	if seconds := s.Failures.Wait(source, now); seconds > 0 {
		return TooManyFailures(seconds, now)
	}
	return nil
}

// AdmitView fails with fault.RateLimited if the source, or its site, has requested too many pages.
func (s *Base) AdmitView(source netip.Addr) error {
	now := s.Now()
	limit, seconds := s.Views.Admit(source, now)
	if seconds == 0 {
		return nil
	}
	return WaitFor(fault.New(fault.RateLimited, "More than %d pages in the last minute. Try again later.", limit), limit, seconds, now)
}

// AdmitChange fails with fault.RateLimited if the account has changed too often.
func (s *Base) AdmitChange(account event.AccountID) error {
	now := s.Now()
	seconds := s.changes.Admit(account, now)
	if seconds == 0 {
		return nil
	}
	e := fault.New(fault.RateLimited, "Too many account changes: at most %d in a burst, then one per minute. Try again later.", changesAtOnce)
	return WaitFor(e, changesAtOnce, seconds, now)
}

// GuessPassword counts an attempt to sign in to an address, whether or not it has an account.
func (s *Base) GuessPassword(c *Call, email string) (*limit.Guess, error) {
	now := s.Now()
	g, wait := s.signIns.Begin(event.EmailID(email), s.http.Source(c.Ctx), now)
	if wait > 0 {
		return nil, WaitFor(fault.New(fault.TooManyFailures, "Too many failed sign-ins with this email. Try again later."), signInSourceLimit, wait, now)
	}
	return g, nil
}

// MergeCounts adds the counts of another edge.
func (s *Base) MergeCounts(counts *event.SourceCounts) {
	now := s.Now()
	s.Views.Sources.Merge(counts.Sources, now)
	s.Views.Sites.Merge(counts.Sites, now)
	s.Keyless.Merge(counts.Keyless, now)
	s.changes.Merge(counts.Changes, now)
	s.unmetered.Merge(counts.Unmetered, counts.UnmeteredSites, now)
}

// NotifyEdges sends this edge's counts to the others until ctx ends.
func (s *Base) NotifyEdges(ctx context.Context) {
	tick := time.NewTicker(notifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		counts := &event.SourceCounts{
			Sources: s.Views.Sources.Drain(), Sites: s.Views.Sites.Drain(), Keyless: s.Keyless.Drain(), Changes: s.changes.Drain(),
		}
		counts.Unmetered, counts.UnmeteredSites = s.unmetered.Drain()
		if len(counts.Sources)+len(counts.Keyless)+len(counts.Changes)+len(counts.Unmetered) == 0 { // sites are only counted together with sources
			continue
		}
		if err := s.bus.PublishSources(counts); err != nil {
			s.log.Warn("the other edges could not be notified", slog.Any("error", err))
		}
	}
}
