package partition

import (
	"context"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/projection"
)

// sweepDaysEvery is the interval between deletions of days past retention.
const sweepDaysEvery = time.Hour

// usageDays reads from the read model, once it holds the messages that the query must see.
func (p *Partition) usageDays(ctx context.Context, id event.AccountID, q *event.UsageDaysQuery, last uint64) (*event.QueryAnswer, error) {
	if q.GetToDay() < q.GetFromDay() || q.GetToDay()-q.GetFromDay() >= projection.DaysKept {
		return nil, &rpc.Error{Code: codeMalformed, Message: "a query of usage by day is about 1 to 400 days"}
	}
	p.mu.Lock()
	exists, since := p.fold.Exists(id), p.fold.DaysSinceMillis()
	p.mu.Unlock()
	if !exists {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	if err := p.projection.Written(ctx, last); err != nil {
		return nil, err
	}
	days, err := p.projection.UsageDays(ctx, id, q.GetFromDay(), q.GetToDay())
	if err != nil {
		return nil, err
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_UsageDays{UsageDays: &event.UsageDaysAnswer{Days: days, SinceMs: since}}
	return answer, nil
}

// sweepDays deletes old days until ctx ends.
func (p *Partition) sweepDays(ctx context.Context) {
	p.sweep(ctx, sweepDaysEvery, "old days of usage could not be deleted yet", func() error {
		_, err := p.projection.SweepDays(ctx, p.now().UnixMilli())
		return err
	})
}

// sweep calls once at the start and at each interval, until ctx ends. An error, such as an unavailable store, is logged with a
// message, and the next call tries again.
func (p *Partition) sweep(ctx context.Context, every time.Duration, failure string, once func() error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := once(); err != nil && ctx.Err() == nil {
			p.log.Warn(failure, "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
