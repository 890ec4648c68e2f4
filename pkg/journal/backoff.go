package journal

import (
	"context"
	"time"
)

// backoff waits longer each time, up to a bound. Not for concurrent use.
type backoff struct {
	first, most, next time.Duration
}

func newBackoff(first, most time.Duration) *backoff {
	return &backoff{first: first, most: most, next: first}
}

// step is the next time to wait.
func (b *backoff) step() time.Duration {
	d := b.next
	b.next = min(2*b.next, b.most)
	return d
}

func (b *backoff) reset() { b.next = b.first }

// wait reports false where ctx ended first.
func (b *backoff) wait(ctx context.Context) bool {
	t := time.NewTimer(b.step())
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
