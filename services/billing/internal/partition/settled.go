package partition

import (
	"context"
	"sync"

	"quire.dev/pkg/event"
)

// An account's own look at its ledger, usage or requests waits for its calls that are being settled, some 25 ms after their
// answers. A call is waited for as awaitSettled does it: until it is justNow old. A query waits for a moment, and is asked again.

const (
	maxLooks        = 64 // concurrently waiting looks of the partition, each occupying a query worker
	maxAccountLooks = 16 // of one account
)

// looks counts the waiting looks.
type looks struct {
	mu        sync.Mutex
	total     int
	byAccount map[event.AccountID]int
}

// enter reports whether a look may wait. It must leave afterwards.
func (l *looks) enter(id event.AccountID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total == maxLooks || l.byAccount[id] == maxAccountLooks {
		return false
	}
	l.total++
	l.byAccount[id]++
	return true
}

func (l *looks) leave(id event.AccountID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.byAccount[id]--; l.byAccount[id] == 0 {
		delete(l.byAccount, id)
	}
}

// awaitCalls waits until the account's calls up to a message are settled, and returns the sequence by which they are; false if
// that takes too long, or too many looks wait.
func (p *Partition) awaitCalls(ctx context.Context, id event.AccountID, upTo uint64) (settled uint64, ok bool) {
	done := func() bool {
		settled = p.fold.Sequence()
		return !p.fold.Unsettled(id, upTo, p.now().Add(-justNow).UnixMilli())
	}
	p.mu.Lock()
	ok = done()
	p.mu.Unlock()
	if ok {
		return settled, true
	}
	if !p.looks.enter(id) {
		return 0, false
	}
	defer p.looks.leave(id)
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	return settled, p.awaitFold(ctx, done)
}

// awaitFold waits until done, which is called after messages while mu is held; false if ctx ends first.
func (p *Partition) awaitFold(ctx context.Context, done func() bool) bool {
	for {
		next := p.position.Next()
		p.mu.Lock()
		ok := done()
		p.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}
