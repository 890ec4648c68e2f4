package web

import (
	"net/netip"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"quire.dev/services/edge/internal/fault"
)

// docs/api.md, Limits.
const (
	signInLimit        = 100 // of an address, from sources that nobody has signed in from
	signInWindow       = time.Hour
	signInSourceLimit  = 10 // of an address, from one source
	signInSourceWindow = 15 * time.Minute
	rememberedSources  = 65536
	rememberedFor      = 30 * day
)

// guessLimit limits how often a password may be guessed. A guess counts from its beginning, so that no number of guesses at a
// time gets past a limit. Whoever knows the password is not locked out by others who guess: a source from which it was right
// is held to its own limit alone.
type guessLimit struct {
	targets *failureLog[string]
	pairs   *failureLog[guesser] // nil: a source has no limit of its own
	right   *otter.Cache[guesser, struct{}]
}

// guesser is a source, and what it tries to open.
type guesser struct {
	target string
	source netip.Addr
}

// newGuessLimit makes a limit. A pairLimit of 0 is none.
func newGuessLimit(limit int, window time.Duration, pairLimit int, pairWindow time.Duration) *guessLimit {
	g := &guessLimit{
		targets: newFailureLog[string](limit, window),
		right: otter.Must(&otter.Options[guesser, struct{}]{
			MaximumSize: rememberedSources, ExpiryCalculator: otter.ExpiryWriting[guesser, struct{}](rememberedFor),
		}),
	}
	if pairLimit > 0 {
		g.pairs = newFailureLog[guesser](pairLimit, pairWindow)
	}
	return g
}

// guess is one that is being checked. It counts as wrong unless it is found right or takenBack.
type guess struct {
	limit *guessLimit
	who   guesser
	known bool
	begun time.Time
}

// begin counts a guess. Where there were too many it returns the seconds to wait instead, which are above 0.
func (g *guessLimit) begin(target string, source netip.Addr, now time.Time) (*guess, int) {
	who := guesser{target, source}
	_, known := g.right.GetIfPresent(who)
	if g.pairs != nil {
		if wait := g.pairs.begin(who, now); wait > 0 {
			return nil, wait
		}
	}
	if !known {
		if wait := g.targets.begin(target, now); wait > 0 {
			if g.pairs != nil {
				g.pairs.takeBack(who, now)
			}
			return nil, wait
		}
	}
	return &guess{limit: g, who: who, known: known, begun: now}, 0
}

// takenBack says that the guess was not decided.
func (a *guess) takenBack() {
	if a.limit.pairs != nil {
		a.limit.pairs.takeBack(a.who, a.begun)
	}
	if !a.known {
		a.limit.targets.takeBack(a.who.target, a.begun)
	}
}

// foundRight says that the guess was right.
func (a *guess) foundRight() {
	a.takenBack()
	a.limit.right.Set(a.who, struct{}{})
}

// guessPassword counts a try to sign in with an address. It is the same whether the address has an account or not.
func (s *Server) guessPassword(c *call, email string) (*guess, error) {
	now := s.now()
	g, wait := s.signIns.begin(strings.ToLower(strings.TrimSpace(email)), s.http.Source(c.Ctx), now)
	if wait > 0 {
		return nil, waitFor(fault.New(fault.TooManyFailures, "Too many sign-ins with this address failed. Try again later."), signInSourceLimit, wait, now)
	}
	return g, nil
}
