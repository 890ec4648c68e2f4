package load

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Kind is a kind of call, as its successes are timed.
type Kind string

// The kinds of calls.
const (
	Read  Kind = "read"  // a metered read
	Lite  Kind = "lite"  // a write of a quick paste
	Paste Kind = "paste" // a write of a paste
	File  Kind = "file"  // a write of a file
	Admin Kind = "admin" // accounts, usage, keys
)

// AllBases is the base of what a Report says of all bases together.
const AllBases = -1

// Stretch is what clients saw of one kind of call through one base.
type Stretch struct {
	Kind Kind
	Base int // index into the bases, or AllBases
	// Gap is the longest time between two successive successes of anybody's that ended after the mark, or has
	// not ended yet. Time without a Run does not count.
	Gap time.Duration
	// Acked counts 2xx; Refused other definite answers, also those that had to be; Unavailable 503 and
	// connections that were refused; Unknown 504 and connections that broke.
	Acked, Refused, Unavailable, Unknown int64
}

// Report is what clients saw since the last Mark.
type Report []Stretch

// Of is what the report says of a kind; the zero Stretch where there was no call.
func (r Report) Of(kind Kind, base int) Stretch {
	for _, s := range r {
		if s.Kind == kind && s.Base == base {
			return s
		}
	}
	return Stretch{Kind: kind, Base: base}
}

// String is a table with a line for each kind and base.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-6s %4s %12s %9s %9s %11s %8s\n", "kind", "base", "longest gap", "acked", "refused", "unavailable", "unknown")
	for _, s := range r {
		base := fmt.Sprint(s.Base)
		if s.Base == AllBases {
			base = "all"
		}
		fmt.Fprintf(&b, "%-6s %4s %12s %9d %9d %11d %8d\n", s.Kind, base, s.Gap.Round(time.Millisecond), s.Acked, s.Refused, s.Unavailable, s.Unknown)
	}
	return b.String()
}

// clock times the successes of a Run. Times are monotonic.
type clock struct {
	mu      sync.Mutex
	running bool
	tracks  map[track]*Stretch
	last    map[track]time.Time // the last success, or when the Run began
	total   map[Kind]int64      // acknowledged since the Load was made
	bases   int
}

type track struct {
	kind Kind
	base int
}

// kinds in the order of a Report.
func kinds() []Kind { return []Kind{Read, Lite, Paste, File, Admin} }

func (c *clock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracks = map[track]*Stretch{}
	if c.last == nil {
		c.last, c.total = map[track]time.Time{}, map[Kind]int64{}
	}
}

// keep forgets the bases that are not there any more.
func (c *clock) keep(bases int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bases = min(c.bases, bases)
	for t := range c.last {
		if t.base >= bases {
			delete(c.last, t)
			delete(c.tracks, t)
		}
	}
}

// resume begins a Run: what came before is no gap.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
	now := time.Now()
	for t := range c.last {
		c.last[t] = now
	}
}

func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for t, last := range c.last {
		s := c.stretch(t)
		s.Gap = max(s.Gap, now.Sub(last))
	}
	c.running = false
}

func (c *clock) stretch(t track) *Stretch {
	s := c.tracks[t]
	if s == nil {
		s = &Stretch{Kind: t.kind, Base: t.base}
		c.tracks[t] = s
	}
	return s
}

// count takes the answer to a call of a Run.
func (c *clock) count(kind Kind, base int, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return
	}
	now := time.Now()
	c.bases = max(c.bases, base+1)
	for _, t := range []track{{kind, AllBases}, {kind, base}} {
		s := c.stretch(t)
		if _, begun := c.last[t]; !begun {
			c.last[t] = now
		}
		switch o {
		case ackedOutcome:
			s.Acked++
			s.Gap = max(s.Gap, now.Sub(c.last[t]))
			c.last[t] = now
		case refusedOutcome:
			s.Refused++
		case unavailableOutcome:
			s.Unavailable++
		case unknownOutcome:
			s.Unknown++
		}
	}
	if o == ackedOutcome {
		c.total[kind]++
	}
}

func (c *clock) report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var out Report
	for _, kind := range kinds() {
		for base := AllBases; base < c.bases; base++ {
			t := track{kind, base}
			last, known := c.last[t]
			if !known {
				continue
			}
			s := *c.stretch(t)
			if c.running {
				s.Gap = max(s.Gap, now.Sub(last))
			}
			out = append(out, s)
		}
	}
	return out
}

// Mark begins a new Report. A gap that is open now will be told in full.
func (l *Load) Mark() { l.clock.reset() }

// Gaps is what clients saw since the last Mark, or since the Load was made.
func (l *Load) Gaps() Report { return l.clock.report() }

// Acked is how many calls of a kind were acknowledged in all Runs so far.
func (l *Load) Acked(kind Kind) int64 {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.total[kind]
}
