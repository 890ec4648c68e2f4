package sweep

import (
	"context"
	"math"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/rpc"
)

// erasePage is how many documents one EraseRequest deletes.
const erasePage = 100

// Erase answers one EraseRequest, for an account that billing has erased. It asks the fold to delete each document on behalf of its
// owner, including versions, blobs and storage, unmetered. It finds every document whose creation was answered before the request
// came. A document may be found again before its deletion is folded; deleting it twice has no effect.
func (s *Sweeper) Erase(ctx context.Context, payload []byte) ([]byte, error) {
	request := &event.EraseRequest{}
	if err := event.Decode(payload, request); err != nil || request.Account == 0 {
		return nil, &rpc.Error{Code: rpc.CodeInternal, Message: "a request to erase needs an account"}
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.EraseWait)
	defer cancel()
	// At time 0 no document is expired, so expired ones that wait for the sweep are found, too.
	page, err := s.state.List(ctx, &event.ListRequest{Account: request.Account, Limit: erasePage, NowMs: math.MinInt64})
	if err != nil {
		s.cfg.Failures.WithLabelValues("erase").Inc()
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: err.Error()}
	}
	for _, d := range page.Documents {
		if err := s.delete(ctx, request.Account, d); err != nil {
			return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: err.Error()}
		}
	}
	s.cfg.Swept.WithLabelValues("erased").Add(float64(len(page.Documents)))
	return event.Encode(&event.EraseAnswer{Deleting: num.Uint32(len(page.Documents))})
}

func (s *Sweeper) delete(ctx context.Context, owner uint64, d *event.Document) error {
	if fold.Expired(d, s.cfg.now()) {
		return s.expire(ctx, d.Id) // its owner can't delete it any more
	}
	id := event.NewRequestID()
	return journal.WhenFree(ctx, s.requests.Add, &event.Request{
		RequestId: id[:], Item: d.Id, Account: owner, Action: &event.Request_Delete{Delete: &event.Delete{}},
	})
}
