package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/wait"
)

// confirmAgain is how long a Confirmer waits for a response before it retries.
const confirmAgain = time.Second

// ConfirmEvery is the minimum interval between two messages of a Confirmer.
// Callers in between share the next one. The messages stay in the journal, in
// some of them permanently: without a limit one caller who repeats a query adds
// gigabytes a day.
const ConfirmEvery = 50 * time.Millisecond

// Confirmer finds the end of a stream for readers that must see every message
// acknowledged before they asked.
//
// The leader of a replicated stream can't know it alone: its peers may have
// elected another one a moment ago. Only a message stored by a majority proves
// that it still leads. So one message is appended for all waiting readers, and
// its sequence is the answer. The single server of an unreplicated stream knows
// its end, and nothing is appended. Messages are at least ConfirmEvery apart.
//
// Safe for concurrent use.
type Confirmer struct {
	journal    *Journal
	subject    string
	message    func() ([]byte, error)
	replicated atomic.Bool   // as of the last response
	turn       chan struct{} // held by the caller that leads a round
	appended   time.Time     // time of the last message; owned by the holder of turn

	mu   sync.Mutex
	next *round // that new callers join
}

// round is one query for all callers that came before it was sent.
type round struct {
	done chan struct{} // closed once the other fields are set
	last uint64
	err  error
}

// NewConfirmer returns a Confirmer of j. It appends the result of message to
// the subject, which must not influence any decision of a fold.
func (j *Journal) NewConfirmer(subject string, message func() ([]byte, error)) *Confirmer {
	return &Confirmer{journal: j, subject: subject, message: message, turn: make(chan struct{}, 1)}
}

// LastSequence returns a sequence at or after every message acknowledged before
// the call. ErrUnavailable if no majority of the stream's servers is reachable.
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

// lead runs the query for all callers of the round, unless another caller has.
func (c *Confirmer) lead(ctx context.Context, r *round) {
	c.mu.Lock()
	mine := c.next == r
	c.mu.Unlock()
	if !mine {
		return
	}
	// The other callers of the round wait too and must not fail with this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), apiWait)
	defer cancel()
	wait.For(ctx, time.Until(c.appended.Add(ConfirmEvery))) // callers that come meanwhile join
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
	// A query may be lost with its connection, and a stream without a leader does not respond. So retry soon.
	for {
		last, err := c.append(ctx, data)
		if err == nil || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return last, err
		}
	}
}

// Append appends one message, whatever the number of replicas, and returns its sequence: a proof that the journal takes writes.
// It does not retry. The error is ErrUnavailable if the journal does not answer.
func (c *Confirmer) Append(ctx context.Context) (uint64, error) {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, fmt.Errorf("append to %s: %w: %w", c.journal.stream, ErrUnavailable, ctx.Err())
	}
	defer func() { <-c.turn }()
	data, err := c.message()
	if err != nil {
		return 0, fmt.Errorf("append to %s: %w", c.journal.stream, err)
	}
	return c.append(ctx, data)
}

// append appends the message once. A failed attempt takes confirmAgain, or the rest of ctx.
func (c *Confirmer) append(ctx context.Context, data []byte) (uint64, error) {
	attempt, cancel := context.WithTimeout(ctx, confirmAgain)
	defer cancel()
	c.appended = time.Now()
	m, err := c.journal.nc.RequestWithContext(attempt, c.subject, data)
	switch {
	case err == nil:
		ack := parseAck(m)
		if err = ack.err; err == nil {
			c.journal.files.learn(ack.stream, ack.sequence)
			return ack.sequence, nil
		}
	case isUnreached(err):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	<-attempt.Done()
	return 0, c.journal.metrics.count(fmt.Errorf("confirm the end of %s: %w", c.journal.stream, err))
}

// Publish appends one message to the stream of the subject, outside the way of requests, and returns once it is stored. A call that
// fails may have stored it. ErrUnavailable if the journal does not answer within 10 seconds. Without responders, as while a generation is
// closed, nothing is stored and it retries.
func Publish(ctx context.Context, nc *nats.Conn, subject string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for retry := (wait.Backoff{Initial: 10 * time.Millisecond, Max: time.Second}); ; {
		m, err := nc.RequestWithContext(ctx, subject, data)
		switch {
		case err == nil:
			return parseAck(m).err
		case errors.Is(err, nats.ErrNoResponders) && retry.Wait(ctx):
			continue
		case isUnreached(err):
			err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return err
	}
}
