package partition

import (
	"context"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/wait"
)

// An account's own look at its ledger, usage or requests waits for its calls that are being settled, some 25 ms after their
// answers. A call is waited for as awaitSettled does it: until it is justNow old. A query waits for a moment, and is asked again.

const (
	maxLooks        = 64 // looks of the partition that wait at a time, each on a query worker of its own
	maxAccountLooks = 16 // of one account
	settlePause     = 5 * time.Millisecond
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
	if settled, ok = p.settledCalls(id, upTo); ok {
		return settled, true
	}
	if !p.looks.enter(id) {
		return 0, false
	}
	defer p.looks.leave(id)
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	for wait.For(ctx, settlePause) {
		if settled, ok = p.settledCalls(id, upTo); ok {
			return settled, true
		}
	}
	return 0, false
}

func (p *Partition) settledCalls(id event.AccountID, upTo uint64) (sequence uint64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fold.Sequence(), !p.fold.Unsettled(id, upTo, p.now().Add(-justNow).UnixMilli())
}
