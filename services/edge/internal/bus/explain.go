package bus

import (
	"context"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
	"quire.dev/services/edge/internal/fault"
)

// explainPause is the polling interval of an explanation in progress.
const explainPause = 250 * time.Millisecond

// Explanation is how a request was decided, or billing's progress in finding out.
type Explanation struct {
	Answer      *event.ExplainAnswer // nil while in progress; ask again
	Done, Total uint64               // messages read, and known to exist
}

// Question asks for the explanation of a request.
type Question struct {
	Request event.RequestID
	Run     event.RequestID // folds the journal again, once per run; zero accepts an explanation from the last minute
}

func (q Question) query(anyAccount bool) *event.ExplainQuery {
	out := &event.ExplainQuery{RequestId: q.Request[:], AnyAccount: anyAccount, Follow: true}
	if q.Run != (event.RequestID{}) {
		out.Run = q.Run[:]
	}
	return out
}

// Explain asks how a request of the account was decided. The error is fault.NotFound if the account has no such request, and
// fault.RateLimited after too many explanations.
func (b *Bus) Explain(ctx context.Context, account event.AccountID, q Question) (*Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	found, err := b.explainAt(ctx, event.AccountPartition(account, b.cfg.Partitions), uint64(account), q.query(false))
	if err == nil && found.Answer == nil && found.Total == 0 {
		err = noRequest()
	}
	return found, err
}

func noRequest() error { return fault.New(fault.NotFound, "No such request.") }

// ExplainAny asks every billing partition how a request of any account was decided. The error is fault.NotFound if all have
// answered and none knows the request.
func (b *Bus) ExplainAny(ctx context.Context, q Question) (*Explanation, error) {
	ctx, found := context.WithCancel(ctx)
	defer found() // the other partitions can stop
	var answer atomic.Pointer[event.ExplainAnswer]
	var done, total atomic.Uint64
	err := b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		at, err := b.explainAt(ctx, p, 0, q.query(true))
		if err != nil {
			return err
		}
		done.Add(at.Done)
		total.Add(at.Total)
		if at.Answer != nil {
			answer.Store(at.Answer)
			found()
		}
		return nil
	})
	switch e := answer.Load(); {
	case e != nil:
		return &Explanation{Answer: e}, nil
	case err != nil:
		return nil, err
	case total.Load() == 0:
		return nil, noRequest()
	}
	return &Explanation{Done: done.Load(), Total: total.Load()}, nil
}

// explainAt polls one partition until it has an answer or ctx ends. An explanation without an answer and without messages
// means that the partition has no such request.
func (b *Bus) explainAt(ctx context.Context, partition int, account uint64, q *event.ExplainQuery) (*Explanation, error) {
	query := &event.Query{NowMs: b.Now().UnixMilli(), Account: account, Query: &event.Query_Explain{Explain: q}}
	instance := &b.explaining[partition]
	var last *event.QueryAnswer
	for {
		answer, err := b.askExplainer(ctx, partition, instance.Load(), query)
		switch {
		case err != nil && last == nil:
			return nil, err
		case err == nil:
			last = answer
		}
		progress := last.GetProgress()
		switch last.Status {
		case event.QueryStatus_QUERY_OK:
			if last.GetExplain() == nil {
				return nil, unavailable(errAnswer)
			}
			return &Explanation{Answer: last.GetExplain()}, nil
		case event.QueryStatus_QUERY_NOT_FOUND:
			return &Explanation{}, nil
		case event.QueryStatus_QUERY_PENDING, event.QueryStatus_QUERY_BUSY:
			instance.Store(&progress.Instance)
		case event.QueryStatus_QUERY_LIMITED:
			return nil, rateLimited("Too many explanations in the last minute. Try again later.", int(progress.GetRetryAfterSeconds()))
		default:
			return nil, unavailable(errAnswer)
		}
		if err == nil && wait.For(ctx, explainPause) {
			continue
		}
		if last.Status == event.QueryStatus_QUERY_BUSY {
			return nil, rateLimited("Another explanation is in progress. Only one runs at a time.", 1)
		}
		return &Explanation{Done: progress.GetDone(), Total: max(progress.GetTotal(), 1)}, nil
	}
}

func rateLimited(message string, retryAfter int) error {
	e := fault.New(fault.RateLimited, "%s", message)
	e.RetryAfter = max(retryAfter, 1)
	return e
}

// askExplainer asks the instance that last worked on explanations, so that polling finds the work in progress. If that one
// does not answer, it asks any other.
func (b *Bus) askExplainer(ctx context.Context, partition int, instance *string, query *event.Query) (*event.QueryAnswer, error) {
	answer := &event.QueryAnswer{}
	if instance != nil {
		payload, err := event.Encode(query)
		if err != nil {
			return nil, unavailable(err)
		}
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		data, err := rpc.CallOnce(attempt, b.nc, event.ReplicaSubject(partition, *instance), payload)
		cancel()
		if err == nil && event.Decode(data, answer) == nil {
			return answer, nil
		}
		b.explaining[partition].CompareAndSwap(instance, nil)
	}
	answer = &event.QueryAnswer{}
	return answer, b.ask(ctx, event.QuerySubject(partition), query, answer, attemptTimeout)
}
