package viewstest

import (
	"context"
	"sync"

	"quire.dev/pkg/views"
)

// Together is a read model whose Checkpoint blocks until it was called for every partition. A caller that asks for one partition after
// another waits until its context ends.
type Together struct {
	views.Store
	mu    sync.Mutex
	left  int
	asked chan struct{}
}

// NewTogether returns a Together of a store, for so many partitions.
func NewTogether(store views.Store, partitions int) *Together {
	return &Together{Store: store, left: partitions, asked: make(chan struct{})}
}

// Checkpoint implements views.Store.
func (s *Together) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	s.mu.Lock()
	if s.left--; s.left == 0 {
		close(s.asked)
	}
	s.mu.Unlock()
	select {
	case <-s.asked:
		return s.Store.Checkpoint(ctx, stream)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
