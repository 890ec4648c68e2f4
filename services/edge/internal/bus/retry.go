package bus

import (
	"context"
	"errors"
	"time"

	"quire.dev/pkg/rpc"
)

const (
	// Between two times that something is asked.
	firstPause = 50 * time.Millisecond
	mostPause  = 400 * time.Millisecond
	// firstPatience is how long one of several that could answer is given, before it is taken for lost.
	firstPatience = time.Second
)

// codeUnavailable is what billing and the document services answer where a store of theirs, or their
// fold, does not let them answer now.
const codeUnavailable = "unavailable"

// again decides how often something that changes nothing is asked. A partition that is handed over may
// be answered for a moment by an instance that can't any more, and one whose instance was killed by
// nobody until another has noticed and taken it over, some 5 s. Neither needs to be a client's failure.
type again struct {
	refused time.Time // until then after a refusal: who answers at all soon can, or has lost its store
	last    time.Time // until then where nobody answers
	pause   time.Duration
}

func (b *Bus) newAgain(started time.Time) again {
	return again{refused: started.Add(b.cfg.ReadTimeout), last: started.Add(b.cfg.AwayTimeout), pause: firstPause}
}

// wait returns true when it is time to ask again after err, and false where that is of no use any more.
func (a *again) wait(ctx context.Context, err error) bool {
	until := a.last
	switch {
	case ctx.Err() != nil:
		return false
	case cantNow(err):
		until = a.refused
	case !errors.Is(err, rpc.ErrUnavailable) && !errors.Is(err, rpc.ErrTimeout):
		return false
	}
	if time.Until(until) < a.pause {
		return false
	}
	timer := time.NewTimer(a.pause)
	defer timer.Stop()
	a.pause = min(2*a.pause, mostPause)
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// cantNow tells the answers of a service that can't answer now.
func cantNow(err error) bool {
	var refused *rpc.Error
	if errors.As(err, &refused) {
		return refused.Code == codeUnavailable || refused.Code == rpc.CodeBusy
	}
	return errors.Is(err, errUnavailableModel)
}

// ask is rpc.Call for what changes nothing. The wait for one answer, which may have been lost, is bounded: by each for
// the first, by twice as much for each further one. ctx has the deadline of all.
func (b *Bus) ask(ctx context.Context, subject string, payload []byte, each time.Duration) ([]byte, error) {
	again := b.newAgain(time.Now())
	if deadline, ok := ctx.Deadline(); ok {
		again.last = deadline
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, each)
		answer, err := rpc.Call(attempt, b.nc, subject, payload)
		cancel()
		if err == nil || !again.wait(ctx, err) {
			return answer, err
		}
		each *= 2
	}
}
