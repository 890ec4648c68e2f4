// Package wait holds ways for goroutines to wait, each until its context ends: exponential backoff (Backoff), a change by
// another goroutine (Changes), more work to batch (Gathering), and a fold's progress to a sequence (Position).
package wait

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// For waits for d. It returns false if ctx ends first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Backoff waits twice as long each time, from Initial up to Max. Not safe for concurrent use.
type Backoff struct {
	Initial, Max time.Duration

	next time.Duration // 0: Initial
}

// Next returns the next delay and doubles it.
func (b *Backoff) Next() time.Duration {
	d := max(b.next, b.Initial)
	b.next = min(2*d, b.Max)
	return d
}

// Reset restarts at Initial.
func (b *Backoff) Reset() { b.next = 0 }

// Wait waits for Next. It returns false if ctx ends first.
func (b *Backoff) Wait(ctx context.Context) bool { return For(ctx, b.Next()) }

// Changes lets goroutines wait until other goroutines have made a condition true. The zero value is ready to use. Safe for
// concurrent use.
type Changes struct {
	mu   sync.Mutex
	next chan struct{} // closed at the next change; nil while none waits
}

// Notify wakes the waiting goroutines. Call it after the change.
func (c *Changes) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// Next is closed at the next change. Call it before reading the state that may change, so that no change is missed.
func (c *Changes) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Until waits until the condition holds. It checks at once and after every change, and returns ctx's error if ctx ends first.
// It holds no lock while it calls condition.
func (c *Changes) Until(ctx context.Context, condition func() bool) error {
	if condition() {
		return nil
	}
	for {
		next := c.Next()
		if condition() {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Position is a fold's position in its journal. The zero value is before the first message. Safe for concurrent use.
type Position struct {
	sequence atomic.Uint64
	changes  Changes
}

// Set moves the position to a sequence and wakes the goroutines waiting for it.
func (p *Position) Set(sequence uint64) {
	p.sequence.Store(sequence)
	p.changes.Notify()
}

// Get is the sequence of the last message folded.
func (p *Position) Get() uint64 { return p.sequence.Load() }

// Next is closed at the next move. Call it before reading the fold's state, so that no move is missed.
func (p *Position) Next() <-chan struct{} { return p.changes.Next() }

// Until waits until the sequence is folded. It returns ctx's error if ctx ends first.
func (p *Position) Until(ctx context.Context, sequence uint64) error {
	return p.changes.Until(ctx, func() bool { return p.Get() >= sequence })
}
