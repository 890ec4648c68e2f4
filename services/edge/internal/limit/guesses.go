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

// Guesses limits attempts at a password. An attempt counts when it starts, so that parallel guesses can't exceed a limit.
// Others' guesses don't lock out a user who knows the password: a source that got it right has only its own limit.
type Guesses struct {
	targets *Failures[string]
	pairs   *Failures[guesser] // nil if sources have no limit
	right   *otter.Cache[guesser, struct{}]
}

// guesser is a source and the object it tries to open.
type guesser struct {
	target string
	source netip.Addr
}

// NewGuesses returns a limit of guesses. A pairLimit of 0 sets no limit per source.
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

// Guess is an attempt in progress. It counts as wrong unless Right or Undecided is called.
type Guess struct {
	limit *Guesses
	who   guesser
	known bool
	begun time.Time
}

// Begin counts a guess. After too many it returns the seconds to wait instead, at least 1.
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

// Undecided takes the guess back, since it could not be checked.
func (a *Guess) Undecided() {
	if a.limit.pairs != nil {
		a.limit.pairs.TakeBack(a.who, a.begun)
	}
	if !a.known {
		a.limit.targets.TakeBack(a.who.target, a.begun)
	}
}

// Right takes the guess back and remembers that the source knows the password.
func (a *Guess) Right() {
	a.Undecided()
	a.limit.right.Set(a.who, struct{}{})
}
