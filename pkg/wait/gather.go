package wait

import (
	"context"
	"time"
)

// Gathering lets a goroutine wait for more work to do at once, unless somebody waits for what it does. NewGathering makes one.
// Safe for concurrent use.
type Gathering struct{ hurry chan struct{} }

// NewGathering makes a Gathering that nobody waits for.
func NewGathering() Gathering { return Gathering{make(chan struct{}, 1)} }

// Hurry ends the wait of For: the present one, or the next one.
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

// Until is Changes.Until for a condition that the work brings about. It hurries the work while the condition does not hold.
func (g Gathering) Until(ctx context.Context, changes *Changes, condition func() bool) error {
	return changes.Until(ctx, func() bool {
		if condition() {
			return true
		}
		g.Hurry()
		return false
	})
}
