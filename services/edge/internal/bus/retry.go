package bus

import (
	"context"
	"errors"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
)

// firstPatience is the timeout of the first attempt. After it the instance counts as lost, and another one is asked.
const firstPatience = time.Second

// retry decides whether to repeat a question that changes nothing. While a partition moves between instances, the old one may
// refuse for a moment. If it was killed, no instance answers until another one notices, some 5 s later. Clients should see
// neither as a failure.
type retry struct {
	refused time.Time // end of the retries after a refusal: an instance that refuses for longer has lost its store
	silent  time.Time // end of the retries while no instance answers
	pause   wait.Backoff
}

func (b *Bus) newRetry(started, silent time.Time) retry {
	return retry{
		refused: started.Add(b.cfg.ReadTimeout), silent: silent,
		pause: wait.Backoff{Initial: 50 * time.Millisecond, Max: 400 * time.Millisecond},
	}
}

// wait waits until the question can be repeated after err. It returns false if it should not be.
func (r *retry) wait(ctx context.Context, err error) bool {
	until := r.silent
	var refused *rpc.Error
	switch {
	case errors.Is(err, errReadModel), errors.As(err, &refused) && (refused.Code == rpc.CodeUnavailable || refused.Code == rpc.CodeBusy):
		until = r.refused
	case !errors.Is(err, rpc.ErrUnavailable) && !errors.Is(err, rpc.ErrTimeout):
		return false
	}
	pause := r.pause.Next()
	return time.Until(until) >= pause && wait.For(ctx, pause)
}

// ask asks a service a question that changes nothing, so all its failures are Unavailable. The first attempt times out
// after patience, each further one after twice the previous time. The deadline of ctx bounds all attempts.
func (b *Bus) ask(ctx context.Context, subject string, question, answer event.Message, patience time.Duration) error {
	payload, err := event.Encode(question)
	if err != nil {
		return unavailable(err)
	}
	deadline, _ := ctx.Deadline()
	retry := b.newRetry(time.Now(), deadline)
	for {
		attempt, cancel := context.WithTimeout(ctx, patience)
		data, err := rpc.Call(attempt, b.nc, subject, payload)
		cancel()
		if err == nil {
			err = event.Decode(data, answer)
		}
		switch {
		case err == nil:
			return nil
		case !retry.wait(ctx, err):
			return callFault(err, false)
		}
		patience *= 2
	}
}
