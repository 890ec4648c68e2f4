package telemetry

import (
	"cmp"
	"slices"
	"sync"
)

// Health is what the parts of a process say about their readiness. It may be used concurrently.
type Health struct {
	mu     sync.Mutex
	checks map[*Check]struct{}
}

// NewHealth returns a Health without checks, which is ready.
func NewHealth() *Health { return &Health{checks: make(map[*Check]struct{})} }

// Failing is a check that is not ready, as /readyz shows it.
type Failing struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Check is what one part says. A nil *Check ignores what it is told.
type Check struct {
	health  *Health
	failing Failing
	ready   bool
}

// Register adds a check, which is not ready until Ready is called. On a nil *Health it returns a nil *Check.
func (h *Health) Register(name string) *Check {
	if h == nil {
		return nil
	}
	c := &Check{health: h, failing: Failing{Name: name, Reason: "starting"}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks[c] = struct{}{}
	return c
}

// Ready says that the part works.
func (c *Check) Ready() { c.set(true, "") }

// Fail says that the part does not work for now, and why, for operators. The reason holds no secret.
func (c *Check) Fail(reason string) { c.set(false, reason) }

// Remove takes the check away: the part has ended, and nothing waits for it.
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

// Failing lists the checks that are not ready, by name; a nil *Health has none. While there is no check, nothing has
// been started yet or all has ended, and that is not ready either.
func (h *Health) Failing() []Failing {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.checks) == 0 {
		return []Failing{{Name: "process", Reason: "nothing runs"}}
	}
	var failing []Failing
	for c := range h.checks {
		if !c.ready {
			failing = append(failing, c.failing)
		}
	}
	slices.SortFunc(failing, func(a, b Failing) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason))
	})
	return failing
}
