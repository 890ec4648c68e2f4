package bus

import (
	"context"
	"sync"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// TopUps returns the top-ups that are to be charged, at most limit of each partition.
func (b *Bus) TopUps(ctx context.Context, limit int) (due []*event.TopUp, err error) {
	query := &event.Query{Query: &event.Query_TopUps{TopUps: &event.TopUpsQuery{Limit: num.Uint32(limit)}}}
	err = b.queryAll(ctx, query, func(answer *event.QueryAnswer) bool {
		due = append(due, answer.GetTopUps().GetTopUps()...)
		return answer.GetTopUps() != nil
	})
	return due, err
}

// Revenue returns what each partition knows of payments since a time, with at most failures of each.
func (b *Bus) Revenue(ctx context.Context, since time.Time, failures int) (parts []*event.RevenueAnswer, err error) {
	query := &event.Query{Query: &event.Query_Revenue{Revenue: &event.RevenueQuery{FromMs: since.UnixMilli(), Failures: num.Uint32(failures)}}}
	err = b.queryAll(ctx, query, func(answer *event.QueryAnswer) bool {
		parts = append(parts, answer.GetRevenue())
		return answer.GetRevenue() != nil
	})
	return parts, err
}

// queryAll asks every partition of billing. take reports whether an answer is of the right kind; one call at a time.
func (b *Bus) queryAll(ctx context.Context, query *event.Query, take func(*event.QueryAnswer) bool) error {
	query.NowMs = b.Now().UnixMilli()
	var mu sync.Mutex
	return b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		answer := &event.QueryAnswer{}
		if err := b.ask(ctx, event.QuerySubject(p), query, answer, attemptTimeout); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if answer.Status != event.QueryStatus_QUERY_OK || !take(answer) {
			return unavailable(errAnswer)
		}
		return nil
	})
}
