package bus

import (
	"context"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge/internal/fault"
)

// Query asks the billing partition of account. NowMs and Account are set here. A query changes
// nothing, so that all its failures are Unavailable.
func (b *Bus) Query(ctx context.Context, account event.AccountID, q *event.Query) (*event.QueryAnswer, error) {
	q.Account = uint64(account)
	q.NowMs = b.Now().UnixMilli()
	ctx, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	return b.query(ctx, event.AccountPartition(account, b.cfg.Partitions), q, firstPatience)
}

// query asks for longer and longer, beginning with patience: who was asked may have been killed, and another answers.
func (b *Bus) query(ctx context.Context, partition int, q *event.Query, patience time.Duration) (*event.QueryAnswer, error) {
	payload, err := event.Encode(q)
	if err != nil {
		return nil, unavailable(err)
	}
	data, err := b.ask(ctx, event.QuerySubject(partition), payload, patience)
	if err != nil {
		return nil, callFault(err, false)
	}
	answer := &event.QueryAnswer{}
	if err := event.Decode(data, answer); err != nil {
		return nil, unavailable(err)
	}
	return answer, nil
}

// Explain asks every billing partition how a request was decided, whosever it was. A request that
// no partition knows is a fault.NotFound; that is only said when all have answered.
func (b *Bus) Explain(ctx context.Context, id event.RequestID) (*event.ExplainAnswer, error) {
	payload := &event.Query{
		NowMs: b.Now().UnixMilli(),
		Query: &event.Query_Explain{Explain: &event.ExplainQuery{RequestId: id[:], AnyAccount: true}},
	}
	var (
		mu    sync.Mutex
		found *event.ExplainAnswer
	)
	err := b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		answer, err := b.query(ctx, p, payload, b.cfg.QueryTimeout) // it is long work, once is enough
		if err != nil {
			return err
		}
		switch explain := answer.GetExplain(); {
		case answer.Status == event.QueryStatus_QUERY_NOT_FOUND:
		case answer.Status != event.QueryStatus_QUERY_OK || explain == nil:
			return unavailable(errAnswer)
		default:
			mu.Lock()
			found = explain
			mu.Unlock()
		}
		return nil
	})
	switch {
	case found != nil:
		return found, nil
	case err != nil:
		return nil, err
	}
	return nil, fault.New(fault.NotFound, "No such request.")
}

// User asks billing's user store. NowMs is set here.
func (b *Bus) User(ctx context.Context, r *event.UserRequest) (*event.UserAnswer, error) {
	r.NowMs = b.Now().UnixMilli()
	payload, err := event.Encode(r)
	if err != nil {
		return nil, unavailable(err)
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	call := func() ([]byte, error) { return b.ask(ctx, event.UserSubject, payload, firstPatience) }
	if changesUsers(r) {
		call = func() ([]byte, error) { return rpc.Call(ctx, b.nc, event.UserSubject, payload) }
	}
	data, err := call()
	if err != nil {
		return nil, callFault(err, changesUsers(r))
	}
	answer := &event.UserAnswer{}
	if err := event.Decode(data, answer); err != nil {
		return nil, callFault(err, changesUsers(r))
	}
	return answer, nil
}

func changesUsers(r *event.UserRequest) bool {
	switch r.Action.(type) {
	case *event.UserRequest_Find, *event.UserRequest_CheckSession:
		return false
	}
	return true
}
