package partition

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/services/billing/internal/account"
)

// edgeWait is how long it may take to find that an edge has ended: the server reports at once that nobody listens. A running
// edge does not answer.
const edgeWait = 250 * time.Millisecond

// hold returns the open hold under an idempotency id, and whether its edge has ended. It is the query of a second call under an
// Idempotency-Key that finds the first one in flight: a killed edge leaves a hold that nobody settles. An edge that cached a
// refusal also asks whether the call repeats a served one.
func (p *Partition) hold(ctx context.Context, payer event.AccountID, q *event.HoldQuery, now int64) (*event.QueryAnswer, error) {
	if len(q.GetIdempotencyId()) != len(event.IdempotencyID{}) {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	id := event.IdempotencyID(q.GetIdempotencyId())
	p.mu.Lock()
	found, ok := p.fold.HoldUnder(payer, id)
	repeated, served := p.fold.ServedUnder(payer, id)
	p.mu.Unlock()
	if q.GetOrServed() && served {
		answer := status(event.QueryStatus_QUERY_OK)
		answer.Answer = &event.QueryAnswer_Hold{Hold: &event.HoldAnswer{RequestId: repeated.Request[:], Served: true, ReadHash: repeated.ReadHash}}
		return answer, nil
	}
	if !ok {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	m, err := p.journal.Get(ctx, found.Sequence)
	if err != nil {
		return nil, fmt.Errorf("read message %d of %s: %w", found.Sequence, p.stream, err)
	}
	batch := &event.UsageBatch{}
	if err := event.Decode(m.Data, batch); err != nil {
		return nil, fmt.Errorf("read message %d of %s: %w", found.Sequence, p.stream, err)
	}
	age := max(0, now-found.SinceMillis)
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Hold{Hold: &event.HoldAnswer{
		RequestId: found.Request[:], AgeSeconds: num.Uint32(age / 1000),
		ClosesInSeconds: uint32((max(0, account.HoldMillis-age) + 999) / 1000), Abandoned: p.ended(ctx, batch.Source),
		ReadHash: found.ReadHash,
	}}
	return answer, nil
}

// ended reports whether an edge has ended: nobody listens for its verdicts. It may be wrong about an edge that is cut off. That
// is harmless: of two calls under one Idempotency-Key, the document's service executes the one that comes first. One edge is
// probed at a time, so that repeated calls take no workers from others.
func (p *Partition) ended(ctx context.Context, source string) bool {
	if !p.asking.TryLock() {
		return false
	}
	defer p.asking.Unlock()
	empty, err := event.Encode(&event.VerdictBatch{Source: source})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, edgeWait)
	defer cancel()
	_, err = p.deps.NC.RequestWithContext(ctx, event.VerdictSubject(source), empty)
	return errors.Is(err, nats.ErrNoResponders)
}
