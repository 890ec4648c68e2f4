package bus

import (
	"context"
	"errors"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
)

// cause is why a request or question is repeated.
type cause uint8

const (
	none   cause = iota // it is not: the answer or the error is final
	moving              // an instance refuses while its partition moves; one that refuses for longer has lost its store
	silent              // no instance answers: if one was killed, another notices some 5 s later
	held                // open holds of other requests may still lift the refusal
	freed               // the hold that blocked the request is closed
	unseen              // the outcome exists, and its service does not show it yet
)

const (
	// heldWithin is short since each repetition is an admission in the journal.
	heldWithin = time.Second
	// freedWithin also bounds the question about the hold that blocks a request.
	freedWithin  = 2 * time.Second
	unseenWithin = time.Second
)

// within is how long a request is repeated for a cause; 0: as long as its budget lasts.
func (c *Config) within(why cause) time.Duration {
	switch why {
	case moving:
		return c.ReadTimeout
	case held:
		return heldWithin
	case freed:
		return freedWithin
	case unseen:
		return unseenWithin
	}
	return 0
}

// causeOf returns why a question is repeated that changes nothing and failed with err.
func causeOf(err error) cause {
	var refused *rpc.Error
	switch {
	case errors.Is(err, errReadModel):
		return moving
	case errors.As(err, &refused) && (refused.Code == rpc.CodeUnavailable || refused.Code == rpc.CodeBusy):
		return moving
	case errors.Is(err, rpc.ErrUnavailable), errors.Is(err, rpc.ErrTimeout):
		return silent
	case errors.Is(err, errUnseen):
		return unseen
	}
	return none
}

// step is what follows a verdict.
type step uint8

const (
	stands   step = iota // the verdict is the answer
	askID                // ask what is under the idempotency id: see afterHold
	askAgain             // repeat the admission, for the cause held
)

// afterVerdict returns what follows billing's verdict on a.
func afterVerdict(a *Admission, v *Verdict) step {
	switch {
	case v.Held:
		return askAgain
	case v.Decision == event.Decision_IDEMPOTENCY_IN_FLIGHT && len(a.IdempotencyID) > 0:
		return askID
	}
	return stands
}

// afterHold returns the verdict on a, given v and what billing knows under the idempotency id: an open hold, a served request
// or, nil, neither. It returns nil if billing has to decide again.
func afterHold(a *Admission, v *Verdict, known *event.HoldAnswer) *Verdict {
	switch {
	case known == nil && isOfOneID(v.Decision):
		return nil // what v was about has ended
	case known == nil:
		return v
	case !event.SameRead(known.ReadHash, a.ReadHash):
		return v.withDecision(event.Decision_IDEMPOTENCY_OTHER, 0)
	case known.Served && a.isRepeatable():
		return nil // billing counts the replays
	case known.Served:
		return v.withDecision(event.Decision_IDEMPOTENCY_SERVED, 0)
	}
	return v.withDecision(event.Decision_IDEMPOTENCY_IN_FLIGHT, max(1, min(known.AgeSeconds, known.ClosesInSeconds)))
}

// withDecision returns a refusal with another decision and the limits of v.
func (v *Verdict) withDecision(d event.Decision, retryAfterSeconds uint32) *Verdict {
	return &Verdict{TimeMs: v.TimeMs, Verdict: &event.Verdict{
		Decision: d, Tier: v.Tier, Limit: v.Limit, Remaining: v.Remaining, ResetSeconds: v.ResetSeconds, RetryAfterSeconds: retryAfterSeconds,
	}}
}

// isOfOneID tells whether a refusal applies to one idempotency id only.
func isOfOneID(d event.Decision) bool {
	return d == event.Decision_IDEMPOTENCY_IN_FLIGHT || d == event.Decision_IDEMPOTENCY_OTHER
}

// beforeIdempotency tells whether billing makes a decision before it looks at the idempotency id, so that it applies to
// repetitions too.
func beforeIdempotency(d event.Decision) bool {
	switch d {
	case event.Decision_INVALID_KEY, event.Decision_ACCOUNT_SUSPENDED, event.Decision_ACCOUNT_QUARANTINED, event.Decision_KEY_SCOPE, event.Decision_TOO_MANY_FAILURES:
		return true
	}
	return false
}

// budget bounds the repetitions of one request, for all causes together. Not safe for concurrent use.
type budget struct {
	bus     *Bus
	started time.Time
	end     time.Time
	pause   wait.Backoff
}

func (b *Bus) newBudget(started, end time.Time) budget {
	return budget{
		bus: b, started: started, end: end, pause: wait.Backoff{Initial: 50 * time.Millisecond, Max: 400 * time.Millisecond},
	}
}

// spend waits until the request may be repeated. It returns false if it may not be: there is no cause, or its time or the
// budget's is over, or ctx has ended, or no journal takes writes.
func (b *budget) spend(ctx context.Context, why cause) bool {
	if why == none || b.bus.Unready() != nil {
		return false
	}
	end := b.end
	if limit := b.bus.cfg.within(why); limit > 0 && limit < end.Sub(b.started) {
		end = b.started.Add(limit)
	}
	pause := b.pause.Next()
	return time.Until(end) >= pause && wait.For(ctx, pause)
}

// attemptTimeout is the timeout of the first attempt at a question. After it the instance counts as lost, and the question goes to
// another one.
const attemptTimeout = time.Second

// ask asks a service a question that changes nothing, so all its failures are Unavailable. The timeout doubles with each attempt. The
// deadline of ctx, which must have one, bounds all attempts.
func (b *Bus) ask(ctx context.Context, subject string, question, answer event.Message, timeout time.Duration) error {
	payload, err := event.Encode(question)
	if err != nil {
		return unavailable(err)
	}
	deadline, _ := ctx.Deadline()
	budget := b.newBudget(time.Now(), deadline)
	for {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		data, err := rpc.Call(attempt, b.nc, subject, payload)
		cancel()
		if err == nil {
			err = event.Decode(data, answer)
		}
		switch {
		case err == nil:
			return nil
		case !budget.spend(ctx, causeOf(err)):
			return callFault(err, false)
		}
		timeout *= 2
	}
}
