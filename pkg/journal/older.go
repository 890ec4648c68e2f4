package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// Older has the messages from before the first one of a stream. Readers trust them like the stream itself, so an implementation must check
// that the stream had exactly these messages.
//
// Its errors: ErrGap, which names what is missing or damaged, and ErrUnavailable if a later attempt may succeed.
type Older interface {
	// Replay calls handle in order with the messages of a stream from one sequence to another, inclusive. It returns handle's error
	// unwrapped. The data of a message is valid until handle returns.
	Replay(ctx context.Context, stream string, from, to uint64, handle func(Message) error) error
	// SeekTime returns the sequence of the first message at or after t, up to the sequence to, or to+1 if all of them are older.
	SeekTime(ctx context.Context, stream string, t time.Time, to uint64) (uint64, error)
}

// WithOlder returns the Journal whose readers get the messages from before the stream's first one from o. State remains the stream's own
// extent. nil: such messages are an ErrGap.
func (j *Journal) WithOlder(o Older) *Journal {
	longer := *j
	longer.older = o
	return &longer
}

// errSkipped: a consumer delivered a later message than the next one. Either the stream begins later than it did, and the next
// State says so, or it has a gap.
var errSkipped = errors.New("the consumer skipped messages")

// readOlder delivers messages from before the stream's first one.
func (f *follower) readOlder(ctx context.Context, to uint64) error {
	if f.last > 0 {
		to = min(to, f.last)
	}
	var failed error // of the handler, or the end
	err := f.journal.older.Replay(ctx, f.journal.stream, f.next, to, func(m Message) error {
		if failed = ctx.Err(); failed == nil {
			failed = f.handle(ctx, m)
		}
		if failed == nil {
			failed = f.advance()
		}
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case err == nil:
		return reattach(errors.New("the rest is in the stream"))
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrUnavailable):
		return reattach(err)
	}
	return fmt.Errorf("follow %s after %d, before its first message: %w", f.journal.stream, f.next-1, err)
}

// lastOlder returns the last sequence before the stream's first message, 0 if that is 1 or nobody has older ones.
func (j *Journal) lastOlder(ctx context.Context) (uint64, error) {
	if j.older == nil {
		return 0, nil
	}
	state, err := j.State(ctx)
	if err != nil || state.First == 0 {
		return 0, err
	}
	return state.First - 1, nil
}

// getOlder is Get of a message that the stream does not have.
func (j *Journal) getOlder(ctx context.Context, sequence uint64) (found Message, ok bool, err error) {
	last, err := j.lastOlder(ctx)
	if err != nil || sequence == 0 || sequence > last {
		return found, false, err
	}
	return j.firstOlder(ctx, sequence, sequence, func(Message) bool { return true })
}

// errFound ends a replay of older messages.
var errFound = errors.New("found")

// firstOlder returns the first older message of a range that is wanted.
func (j *Journal) firstOlder(ctx context.Context, from, to uint64, wanted func(Message) bool) (found Message, ok bool, err error) {
	err = j.older.Replay(ctx, j.stream, from, to, func(m Message) error {
		if !wanted(m) {
			return ctx.Err()
		}
		found, ok = m, true
		found.Data = bytes.Clone(m.Data)
		return errFound
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, ok, err
}
