package bus

import (
	"context"
	"errors"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
)

// firstPatience is how long the first instance that is asked has for its answer. After that it is taken for
// lost, and another one is asked.
const firstPatience = time.Second

// retry decides whether a question that changes nothing is asked again. While a partition moves from one
// instance to another, the first may refuse for a moment. If it was killed, nobody answers until another
// has noticed, some 5 s later. Neither needs to be a client's failure.
type retry struct {
	refused time.Time // until then after a refusal: an instance that refuses for longer has lost its store
	silent  time.Time // until then if nobody answers
	pause   wait.Backoff
}

func (b *Bus) newRetry(started, silent time.Time) retry {
	return retry{
		refused: started.Add(b.cfg.ReadTimeout), silent: silent,
		pause: wait.Backoff{First: 50 * time.Millisecond, Most: 400 * time.Millisecond},
	}
}

// wait returns true when it is time to ask again after err, and false if there is no point in it.
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

// ask asks a service what changes nothing, so that all its failures are Unavailable. An answer may be lost:
// the first attempt waits for it as long as patience, each further one for twice as long. ctx has the
// deadline of all attempts.
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
