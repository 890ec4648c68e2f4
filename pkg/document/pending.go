package document

import (
	"context"
	"sync"
	"sync/atomic"

	"quire.dev/pkg/event"
)

// message is one journal message that has been folded.
type message struct {
	sequence uint64
	source   string
	number   uint64
	writes   []write
	outcomes []keptOutcome
	state    *event.DomainState // after it
	bytes    int                // roughly, of writes and outcomes

	answers []*event.Outcome // safe as soon as the message is folded
	late    []*event.Outcome // safe once it is settled

	unsettled atomic.Int32 // groups of settlements that billing's journal does not hold yet
}

func (m *message) settled() bool { return m.unsettled.Load() == 0 }

// write is one document, or version of one, to be projected.
type write struct {
	id    string
	entry *entry
	gone  *gone // of a document that is deleted
}

// gone is what else a deleted document leaves behind.
type gone struct {
	firstVersion, lastVersion uint64
	blob                      string
	burned                    bool
}

type keptOutcome struct {
	id      event.IdempotencyID
	outcome *event.Outcome
}

// pendingLog holds the messages that are folded and not projected, in order. It bounds them: the fold
// waits where the read model does not keep up.
type pendingLog struct {
	maxBytes, maxMessages int

	mu        sync.Mutex
	messages  []*message
	bytes     int
	projected uint64
	timeMS    int64         // the fold's time there
	moved     chan struct{} // closed and replaced when projected grows

	work  chan struct{} // something may have become ready to be projected
	room  chan struct{} // something was projected
	hurry chan struct{} // somebody waits for the projection
}

func newPendingLog(maxBytes, maxMessages int, projected uint64, timeMS int64) *pendingLog {
	return &pendingLog{
		maxBytes: maxBytes, maxMessages: maxMessages, projected: projected, timeMS: timeMS, moved: make(chan struct{}),
		work: make(chan struct{}, 1), room: make(chan struct{}, 1), hurry: make(chan struct{}, 1),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waitRoom waits until another message may be folded. One goroutine may wait.
func (l *pendingLog) waitRoom(ctx context.Context) error {
	for {
		l.mu.Lock()
		full := l.bytes >= l.maxBytes || len(l.messages) >= l.maxMessages
		l.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-l.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *pendingLog) add(m *message) (bytes, messages int) {
	l.mu.Lock()
	l.messages = append(l.messages, m)
	l.bytes += m.bytes
	bytes, messages = l.bytes, len(l.messages)
	l.mu.Unlock()
	if m.settled() {
		signal(l.work)
	}
	return bytes, messages
}

// ready returns the settled messages at the head, as many as fit the bounds, at least one if there is
// one. They stay in the log until drop.
func (l *pendingLog) ready(maxBytes, maxMessages int) []*message {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, bytes := 0, 0
	for n < len(l.messages) && n < maxMessages && l.messages[n].settled() {
		bytes += l.messages[n].bytes
		if n > 0 && bytes > maxBytes {
			break
		}
		n++
	}
	return l.messages[:n:n]
}

// drop removes the messages that ready returned and were projected.
func (l *pendingLog) drop(batch []*message) (bytes, messages int) {
	l.mu.Lock()
	for _, m := range batch {
		l.bytes -= m.bytes
		l.projected, l.timeMS = m.sequence, m.state.TimeMs
	}
	rest := make([]*message, len(l.messages)-len(batch), max(cap(l.messages)/2, len(l.messages)))
	copy(rest, l.messages[len(batch):]) // batch, and whoever holds it, keeps the old array
	l.messages = rest
	bytes, messages = l.bytes, len(l.messages)
	close(l.moved)
	l.moved = make(chan struct{})
	l.mu.Unlock()
	signal(l.room)
	return bytes, messages
}

// projectedTo is the checkpoint as this session has moved it.
func (l *pendingLog) projectedTo() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.projected
}

// projectedTime is the fold's time at the checkpoint.
func (l *pendingLog) projectedTime() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.timeMS
}

// waitProjected waits until the read model holds what the journal says up to sequence.
func (l *pendingLog) waitProjected(ctx context.Context, sequence uint64) error {
	return l.wait(ctx, func() bool { return l.projected >= sequence })
}

// waitTime waits until the fold's time at the checkpoint is no less than timeMS.
func (l *pendingLog) waitTime(ctx context.Context, timeMS int64) error {
	return l.wait(ctx, func() bool { return l.timeMS >= timeMS })
}

func (l *pendingLog) wait(ctx context.Context, done func() bool) error {
	for {
		l.mu.Lock()
		ok, moved := done(), l.moved
		l.mu.Unlock()
		if ok {
			return nil
		}
		signal(l.hurry)
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
