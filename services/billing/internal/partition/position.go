package partition

import (
	"context"
	"sync"
)

// position is how far the fold has come; others can wait for it.
type position struct {
	mu       sync.Mutex
	sequence uint64
	moved    chan struct{} // made when somebody waits, closed when it moves
}

func (p *position) set(sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sequence = sequence
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

func (p *position) get() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sequence
}

// changed is closed at the next move.
func (p *position) changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.moved == nil {
		p.moved = make(chan struct{})
	}
	return p.moved
}

// wait returns once the sequence is folded.
func (p *position) wait(ctx context.Context, sequence uint64) error {
	for {
		changed := p.changed()
		if p.get() >= sequence {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
