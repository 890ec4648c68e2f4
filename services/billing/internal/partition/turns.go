package partition

import (
	"context"
	"runtime"
)

// Turns bound the concurrent replays in a process, so that live folds have processors left. The partitions of the process share
// them.
type Turns struct {
	explanations, audits chan struct{}
}

// NewTurns gives half of the processors to each kind.
func NewTurns() *Turns {
	n := max(runtime.GOMAXPROCS(0)/2, 1)
	return &Turns{explanations: make(chan struct{}, n), audits: make(chan struct{}, n)}
}

// take waits for a turn.
func take(ctx context.Context, turns chan struct{}) (release func(), err error) {
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
