package telemetry

import (
	"cmp"
	"slices"
	"sync"
)

// Health holds the readiness of the parts of a process. Safe for concurrent use.
type Health struct {
	mu     sync.Mutex
	checks map[*Check]struct{}
}

// NewHealth returns a Health without checks, which is not ready: see Failing.
func NewHealth() *Health { return &Health{checks: make(map[*Check]struct{})} }

// Failing is a check that is not ready, as shown by /readyz.
type Failing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Check is the readiness of one part. A nil *Check ignores all calls.
type Check struct {
	health  *Health
	failing Failing
	ready   bool
	ask     func() error // set by Watch
}

// Register adds a check, which is not ready until Ready is called. On a nil *Health it returns a nil *Check.
func (h *Health) Register(name string) *Check {
	if h == nil {
		return nil
	}
	return h.add(&Check{health: h, failing: Failing{Name: name, Reason: "starting"}})
}

// Watch adds a check that is ready while ask returns nil; its error is the reason, for operators. Every readiness request calls
// ask: it must be fast and safe for concurrent use.
func (h *Health) Watch(name string, ask func() error) {
	h.add(&Check{health: h, failing: Failing{Name: name}, ask: ask})
}

func (h *Health) add(c *Check) *Check {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[c] = struct{}{}
	return c
}

// Ready marks the part as working.
func (c *Check) Ready() { c.set(true, "") }

// Fail marks the part as failing, with a reason for operators that holds no secret.
func (c *Check) Fail(reason string) { c.set(false, reason) }

// Remove removes the check once the part has ended.
func (c *Check) Remove() {
	if c == nil {
		return
	}
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	delete(c.health.checks, c)
}

func (c *Check) set(ready bool, reason string) {
	if c == nil {
		return
	}
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	c.ready, c.failing.Reason = ready, reason
}

// Failing lists the checks that are not ready, by name; a nil *Health has none. Without any check, no part has begun or all
// have ended, which is not ready either.
func (h *Health) Failing() []Failing {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	none := len(h.checks) == 0
	var failing []Failing
	var watched []*Check
	for c := range h.checks {
		switch {
		case c.ask != nil:
			watched = append(watched, c)
		case !c.ready:
			failing = append(failing, c.failing)
		}
	}
	h.mu.Unlock()
	if none {
		return []Failing{{Name: "process", Reason: "nothing runs"}}
	}
	for _, c := range watched { // without the lock: ask may take another
		if err := c.ask(); err != nil {
			failing = append(failing, Failing{Name: c.failing.Name, Reason: err.Error()})
		}
	}
	slices.SortFunc(failing, func(a, b Failing) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
	return failing
}
