package load

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Kind is a kind of call. The successes of each kind are timed separately.
type Kind string

// The kinds of calls.
const (
	Read  Kind = "read"  // a metered read
	Lite  Kind = "lite"  // a write of a quick paste
	Paste Kind = "paste" // a write of a paste
	File  Kind = "file"  // a write of a file
	Admin Kind = "admin" // accounts, usage, keys
)

// kinds are in the order of a Report.
func kinds() []Kind { return []Kind{Read, Lite, Paste, File, Admin} }

// AllBases stands for all base URLs together.
const AllBases = -1

// Stretch is what clients saw of one kind of call through one base.
type Stretch struct {
	Kind Kind
	Base int // index into the bases, or AllBases
	// Gap is the longest time without a success of any client. It ended after the mark, or has not ended yet. Time
	// without a Run does not count.
	Gap time.Duration
	// Acked counts 2xx. Refused counts other answers that tell the call's outcome. Unavailable counts 503 and
	// refused connections. Unknown counts 504 and broken connections.
	Acked, Refused, Unavailable, Unknown int64
}

// Report is what clients saw since the last Mark.
type Report []Stretch

// Of returns the part of the report for a kind and a base. Its counts are 0 if there was no call.
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
	tracks  map[track]*timed
	total   map[Kind]int64 // calls acknowledged since the Load was created
}

type track struct {
	kind Kind
	base int
}

type timed struct {
	Stretch
	last time.Time // of the last success, or of the start of the Run
}

// mark begins a new report. A gap that is open now will be in it in full.
func (c *clock) mark() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, s := range c.tracks {
		s.Stretch = Stretch{Kind: t.kind, Base: t.base}
	}
}

// keep forgets the bases from the given number on.
func (c *clock) keep(bases int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.tracks {
		if t.base >= bases {
			delete(c.tracks, t)
		}
	}
}

// resume begins a Run. The time before it is no gap.
func (c *clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = true
	for _, s := range c.tracks {
		s.last = time.Now()
	}
}

// pause ends a Run, and with it the open gaps.
func (c *clock) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = false
	for _, s := range c.tracks {
		s.Gap = max(s.Gap, time.Since(s.last))
	}
}

// count counts the answer to a call. Calls outside of a Run don't count.
func (c *clock) count(kind Kind, base int, o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return
	}
	now := time.Now()
	for _, t := range []track{{kind, AllBases}, {kind, base}} {
		s := c.tracks[t]
		if s == nil {
			s = &timed{Stretch{Kind: kind, Base: t.base}, now}
			c.tracks[t] = s
		}
		switch o {
		case ackedOutcome:
			s.Acked++
			s.Gap, s.last = max(s.Gap, now.Sub(s.last)), now
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
	var out Report
	for _, s := range c.tracks {
		now := s.Stretch
		if c.running {
			now.Gap = max(now.Gap, time.Since(s.last))
		}
		out = append(out, now)
	}
	slices.SortFunc(out, func(a, b Stretch) int {
		return cmp.Or(slices.Index(kinds(), a.Kind)-slices.Index(kinds(), b.Kind), a.Base-b.Base)
	})
	return out
}

// Mark begins a new Report. A gap that is open now will be in it in full.
func (l *Load) Mark() { l.clock.mark() }

// Gaps is the Report since the last Mark, or since the Load was made.
func (l *Load) Gaps() Report { return l.clock.report() }

// Acked is the number of acknowledged calls of a kind in all Runs so far.
func (l *Load) Acked(kind Kind) int64 {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	return l.clock.total[kind]
}
