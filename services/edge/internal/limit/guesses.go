package limit

import (
	"net/netip"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	rememberedSources = 65536
	rememberedFor     = 30 * 24 * time.Hour
)

// Guesses limits how often a password may be guessed. A guess counts from its beginning, so that no number of guesses at a
// time gets past a limit. Whoever knows the password is not locked out by others who guess: a source from which it was right
// is held to its own limit alone.
type Guesses struct {
	targets *Failures[string]
	pairs   *Failures[guesser] // nil: a source has no limit of its own
	right   *otter.Cache[guesser, struct{}]
}

// guesser is a source, and what it tries to open.
type guesser struct {
	target string
	source netip.Addr
}

// NewGuesses makes a limit. A pairLimit of 0 is none.
func NewGuesses(limit int, window time.Duration, pairLimit int, pairWindow time.Duration) *Guesses {
	g := &Guesses{
		targets: NewFailures[string](limit, window),
		right: otter.Must(&otter.Options[guesser, struct{}]{
			MaximumSize: rememberedSources, ExpiryCalculator: otter.ExpiryWriting[guesser, struct{}](rememberedFor),
		}),
	}
	if pairLimit > 0 {
		g.pairs = NewFailures[guesser](pairLimit, pairWindow)
	}
	return g
}

// Guess is one that is being checked. It counts as wrong unless Right or Undecided is called.
type Guess struct {
	limit *Guesses
	who   guesser
	known bool
	begun time.Time
}

// Begin counts a guess. Where there were too many it returns the seconds to wait instead, which are above 0.
func (g *Guesses) Begin(target string, source netip.Addr, now time.Time) (*Guess, int) {
	who := guesser{target, source}
	_, known := g.right.GetIfPresent(who)
	if g.pairs != nil {
		if wait := g.pairs.Begin(who, now); wait > 0 {
			return nil, wait
		}
	}
	if !known {
		if wait := g.targets.Begin(target, now); wait > 0 {
			if g.pairs != nil {
				g.pairs.TakeBack(who, now)
			}
			return nil, wait
		}
	}
	return &Guess{limit: g, who: who, known: known, begun: now}, 0
}

// Undecided says that the guess was not decided.
func (a *Guess) Undecided() {
	if a.limit.pairs != nil {
		a.limit.pairs.TakeBack(a.who, a.begun)
	}
	if !a.known {
		a.limit.targets.TakeBack(a.who.target, a.begun)
	}
}

// Right says that the guess was right.
func (a *Guess) Right() {
	a.Undecided()
	a.limit.right.Set(a.who, struct{}{})
}
