package wait

import (
	"context"
	"time"
)

// Gathering lets a goroutine wait for more work, unless somebody waits for its result. Create one with NewGathering. Safe for
// concurrent use.
type Gathering struct{ hurry chan struct{} }

// NewGathering returns a Gathering without waiters.
func NewGathering() Gathering { return Gathering{make(chan struct{}, 1)} }

// Hurry ends the current or next wait of For.
func (g Gathering) Hurry() {
	select {
	case g.hurry <- struct{}{}:
	default:
	}
}

// For waits for d, or until Hurry is called. It returns false if ctx ends first.
func (g Gathering) For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.hurry:
	case <-ctx.Done():
		return false
	}
	return true
}

// Until is Changes.Until for a condition that depends on the gathered work. It hurries the work while the condition does not
// hold.
func (g Gathering) Until(ctx context.Context, changes *Changes, condition func() bool) error {
	return changes.Until(ctx, func() bool {
		if condition() {
			return true
		}
		g.Hurry()
		return false
	})
}
