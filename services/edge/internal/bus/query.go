package bus

import (
	"context"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
	"quire.dev/services/edge/internal/fault"
)

// Query asks the billing partition of account. It sets NowMs and Account. A query changes nothing, so all its failures are
// Unavailable. Unless it is Settled, it is asked again while its answer is being prepared.
func (b *Bus) Query(ctx context.Context, account event.AccountID, q *event.Query) (*event.QueryAnswer, error) {
	q.Account = uint64(account)
	q.NowMs = b.Now().UnixMilli()
	ctx, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	partition := event.AccountPartition(account, b.cfg.Partitions)
	for {
		answer := &event.QueryAnswer{}
		err := b.ask(ctx, event.QuerySubject(partition), q, answer, attemptTimeout)
		if err != nil || answer.Status != event.QueryStatus_QUERY_PENDING || q.Settled {
			return answer, err
		}
		if !wait.For(ctx, maxLook) {
			return nil, preparing()
		}
	}
}

// preparing is the error for an answer that takes longer than a query may.
func preparing() *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Message: "These entries are old and are being recomputed from the billing journal. Try again in a few seconds.", RetryAfter: 5}
}

// How long Look waits for the settlement of calls, and between two questions.
const (
	lookWait  = 3 * time.Second
	lookPause = 10 * time.Millisecond
	maxLook   = 100 * time.Millisecond
)

// Look is Query for an account that looks at its own calls: the answer shows every call that was answered before, once it is
// settled. Calls that take longer than lookWait are shown as they are then.
func (b *Bus) Look(ctx context.Context, account event.AccountID, q *event.Query) (*event.QueryAnswer, error) {
	until := time.Now().Add(lookWait)
	pause := wait.Backoff{Initial: lookPause, Max: maxLook}
	for q.Settled = true; ; {
		answer, err := b.Query(ctx, account, q)
		if err != nil || answer.Status != event.QueryStatus_QUERY_PENDING {
			return answer, err
		}
		q.Settled = wait.For(ctx, pause.Next()) && time.Now().Before(until)
	}
}

// hold asks for the open hold, or the request served in the last ten minutes, under an idempotency id; nil without either.
func (b *Bus) hold(ctx context.Context, account event.AccountID, id []byte) (*event.HoldAnswer, error) {
	answer, err := b.Query(ctx, account, &event.Query{Query: &event.Query_Hold{Hold: &event.HoldQuery{IdempotencyId: id, OrServed: true}}})
	switch {
	case err != nil:
		return nil, err
	case answer.Status == event.QueryStatus_QUERY_NOT_FOUND:
		return nil, nil
	case answer.Status != event.QueryStatus_QUERY_OK || len(answer.GetHold().GetRequestId()) != len(event.RequestID{}):
		return nil, unavailable(errAnswer)
	}
	return answer.GetHold(), nil
}

// User asks billing's user store. NowMs is set here.
func (b *Bus) User(ctx context.Context, r *event.UserRequest) (*event.UserAnswer, error) {
	r.NowMs = b.Now().UnixMilli()
	ctx, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	answer := &event.UserAnswer{}
	switch r.Action.(type) {
	case *event.UserRequest_Find, *event.UserRequest_CheckSession, *event.UserRequest_List:
		return answer, b.ask(ctx, event.UserSubject, r, answer, attemptTimeout)
	}
	return answer, b.change(ctx, event.UserSubject, r, answer)
}

// Webhooks asks billing's store of webhook addresses and deliveries.
func (b *Bus) Webhooks(ctx context.Context, r *event.WebhookRequest) (*event.WebhookAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	answer := &event.WebhookAnswer{}
	switch r.Action.(type) {
	case *event.WebhookRequest_Find, *event.WebhookRequest_Deliveries:
		return answer, b.ask(ctx, event.WebhookSubject, r, answer, attemptTimeout)
	}
	return answer, b.change(ctx, event.WebhookSubject, r, answer)
}

// change sends a request that changes something. It is sent once: if the answer is lost, the request may have been carried
// out, and the error is OutcomeUnknown.
func (b *Bus) change(ctx context.Context, subject string, request, answer event.Message) error {
	payload, err := event.Encode(request)
	if err != nil {
		return unavailable(err)
	}
	data, err := rpc.Call(ctx, b.nc, subject, payload)
	if err == nil {
		err = event.Decode(data, answer)
	}
	if err != nil {
		return callFault(err, true)
	}
	return nil
}
