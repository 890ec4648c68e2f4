package document

import (
	"context"
	"math"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
)

// eraser deletes the documents of an account that billing has erased. It sends a deletion by the owner for each, so that
// versions, blobs and storage go as usual. None of it is metered.
type eraser struct {
	*scope
	lister  *lister
	sweeper *sweeper
}

// erase answers one EraseRequest. It finds every document whose creation was answered before the request came. A document whose
// deletion is not folded yet may be found and deleted again, which is harmless.
func (e *eraser) erase(ctx context.Context, payload []byte) ([]byte, error) {
	request := &event.EraseRequest{}
	if err := event.Decode(payload, request); err != nil || request.Account == 0 {
		return nil, &rpc.Error{Code: rpc.CodeInternal, Message: "a request to erase needs an account"}
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Bounds.ReadWait)
	defer cancel()
	// At that time no document has expired, so documents waiting for the sweep are found too.
	page, err := e.lister.answer(ctx, &event.ListRequest{Account: request.Account, Limit: maxListLimit, NowMs: math.MinInt64})
	if err != nil {
		e.metrics.failures.WithLabelValues("erase").Inc()
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: err.Error()}
	}
	for _, d := range page.Documents {
		if err := e.delete(ctx, request.Account, d); err != nil {
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: err.Error()}
		}
	}
	e.metrics.swept.WithLabelValues("erased").Add(float64(len(page.Documents)))
	return event.Encode(&event.EraseAnswer{Deleting: uint32(len(page.Documents))})
}

func (e *eraser) delete(ctx context.Context, owner uint64, d *event.Document) error {
	if fold.Expired(d, e.now()) {
		return e.sweeper.expire(ctx, d.Id) // its owner can't delete it any more
	}
	id := event.NewRequestID()
	return add(ctx, e.sweeper.appender.Add, &event.Request{
		RequestId: id[:], Item: d.Id, Account: owner, Action: &event.Request_Delete{Delete: &event.Delete{}},
	})
}
