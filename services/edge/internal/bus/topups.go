package bus

import (
	"context"
	"sync"

	"quire.dev/pkg/event"
)

// TopUps returns the top-ups that are to be charged, at most limit of each partition.
func (b *Bus) TopUps(ctx context.Context, limit int) (due []*event.TopUp, err error) {
	var mu sync.Mutex
	err = b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		answer := &event.QueryAnswer{}
		query := &event.Query{NowMs: b.Now().UnixMilli(), Query: &event.Query_TopUps{TopUps: &event.TopUpsQuery{Limit: uint32(limit)}}}
		if err := b.ask(ctx, event.QuerySubject(p), query, answer, attemptTimeout); err != nil {
			return err
		}
		if answer.Status != event.QueryStatus_QUERY_OK || answer.GetTopUps() == nil {
			return unavailable(errAnswer)
		}
		mu.Lock()
		defer mu.Unlock()
		due = append(due, answer.GetTopUps().TopUps...)
		return nil
	})
	return due, err
}
