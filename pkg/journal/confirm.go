package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/wait"
)

// confirmAgain is how long a Confirmer waits for one answer.
const confirmAgain = time.Second

// ConfirmEvery is the shortest time between two messages of a Confirmer. Callers
// that come in between share the next one. The messages stay in the journal, some
// of which are kept for ever: without a bound one caller who repeats a question
// adds gigabytes a day.
const ConfirmEvery = 50 * time.Millisecond

// Confirmer finds the end of a stream for readers that must see every message
// that was acknowledged before they asked.
//
// The leader of a replicated stream can't tell that by itself: its peers may
// have elected another one a moment ago. Only what a majority stores proves
// that it still leads. So one message is appended for all readers that wait, and
// its sequence is the answer. A stream of one replica has one server that knows
// its end, and nothing is appended. Messages are at least ConfirmEvery apart.
//
// It is safe for concurrent use.
type Confirmer struct {
	journal    *Journal
	subject    string
	message    func() ([]byte, error)
	replicated atomic.Bool   // as of the last answer
	turn       chan struct{} // held by the caller that asks for all of a round
	appended   time.Time     // when the last message was; of the caller that has the turn

	mu   sync.Mutex
	next *round // that callers join
}

// round is one question, for all callers that came before it left.
type round struct {
	done chan struct{} // closed once the rest is set
	last uint64
	err  error
}

// NewConfirmer makes a Confirmer of j. message makes the message that is
// appended to the subject. It must change nothing that a fold decides.
func (j *Journal) NewConfirmer(subject string, message func() ([]byte, error)) *Confirmer {
	return &Confirmer{journal: j, subject: subject, message: message, turn: make(chan struct{}, 1)}
}

// LastSequence returns a sequence at or after that of every message that was
// acknowledged before the call. ErrUnavailable if no majority of the stream's
// servers can be reached.
func (c *Confirmer) LastSequence(ctx context.Context) (uint64, error) {
	c.mu.Lock()
	if c.next == nil {
		c.next = &round{done: make(chan struct{})}
	}
	r := c.next
	c.mu.Unlock()
	select {
	case <-r.done:
	case c.turn <- struct{}{}:
		c.lead(ctx, r)
		<-c.turn
	case <-ctx.Done():
		return 0, fmt.Errorf("confirm the end of %s: %w", c.journal.stream, ctx.Err())
	}
	return r.last, r.err
}

// lead asks for all callers of the round, unless one of them has done so before.
func (c *Confirmer) lead(ctx context.Context, r *round) {
	c.mu.Lock()
	mine := c.next == r
	c.mu.Unlock()
	if !mine {
		return
	}
	// The others of the round wait too: they don't fail with this caller.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiWait)
	defer cancel()
	wait.For(ctx, time.Until(c.appended.Add(ConfirmEvery))) // those who come meanwhile join
	c.mu.Lock()
	c.next = nil
	c.mu.Unlock()
	r.last, r.err = c.ask(ctx)
	close(r.done)
}

func (c *Confirmer) ask(ctx context.Context) (uint64, error) {
	if !c.replicated.Load() {
		state, err := c.journal.State(ctx)
		if err != nil || state.Replicas == 1 {
			return state.Last, err
		}
		c.replicated.Store(true)
	}
	data, err := c.message()
	if err != nil {
		return 0, fmt.Errorf("confirm the end of %s: %w", c.journal.stream, err)
	}
	// A question may be lost with its connection, and a stream without a leader does not answer. So it is asked again soon.
	for {
		last, err := c.append(ctx, data)
		if err == nil || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return last, err
		}
	}
}

// append appends the message once. If that fails it has taken confirmAgain, or all of ctx.
func (c *Confirmer) append(ctx context.Context, data []byte) (uint64, error) {
	attempt, cancel := context.WithTimeout(ctx, confirmAgain)
	defer cancel()
	c.appended = time.Now()
	m, err := c.journal.nc.RequestWithContext(attempt, c.subject, data)
	switch {
	case err == nil:
		ack := parseAck(m)
		if err = ack.err; err == nil {
			return ack.sequence, nil
		}
	case unreached(err):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	<-attempt.Done()
	return 0, fmt.Errorf("confirm the end of %s: %w", c.journal.stream, err)
}
