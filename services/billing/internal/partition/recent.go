package partition

import (
	"context"
	"errors"
	"fmt"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/recent"
	"quire.dev/services/billing/internal/snapshots"
)

// openRecent makes the fold record requests from its snapshot on, after those recorded before.
func (p *Partition) openRecent(ctx context.Context, fold *account.Fold) error {
	fold.Record(p.recent)
	if fold.Sequence() == 0 {
		return nil
	}
	err := p.snapshots.LoadRecent(ctx, fold.Sequence(), p.recent)
	switch {
	case errors.Is(err, blob.ErrNotFound): // only the newest images are kept
		p.log.Info("the lists of recent requests begin after the snapshot", "sequence", fold.Sequence())
	case errors.Is(err, snapshots.ErrDamaged):
		p.log.Warn("recent requests can't be read; their lists begin after the snapshot", "error", err)
	default:
		return err
	}
	return nil
}

// thinRecent keeps the image that a start would use: of the newest snapshot not after the read model's checkpoint.
func (p *Partition) thinRecent(ctx context.Context) error {
	checkpoint, err := p.deps.Views.Checkpoint(ctx, p.stream)
	if err != nil {
		return fmt.Errorf("read checkpoint of %s: %w", p.stream, err)
	}
	return p.snapshots.ThinRecent(ctx, checkpoint)
}

// recentRequests answers with a page of an account's last requests.
func (p *Partition) recentRequests(id event.AccountID, q *event.RecentQuery, now int64) *event.QueryAnswer {
	var after event.RequestID
	if len(q.GetCursor()) > 0 {
		var err error
		if after, err = event.RequestIDFrom(q.Cursor); err != nil {
			return status(event.QueryStatus_QUERY_INVALID_CURSOR)
		}
	}
	if !p.exists(id) {
		return status(event.QueryStatus_QUERY_NOT_FOUND)
	}
	limit := int(q.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	page := &event.RecentAnswer{}
	for _, r := range p.recentPage(id, q, after, now, min(limit, maxPage)+1) {
		if len(page.Requests) == min(limit, maxPage) {
			page.NextCursor = page.Requests[len(page.Requests)-1].RequestId
			break
		}
		page.Requests = append(page.Requests, &event.RecentRequest{
			RequestId: r.Request[:], TimeMs: r.TimeMillis, QuotaKey: uint32(r.QuotaKey), Key: r.Key,
			Decision: event.Decision(r.Decision), Held: r.Status == recent.Held, Status: account.Status(r.Status),
			Charge: event.ChargeSource(r.Charge), CostMicros: r.CostMicros, Remaining: r.Remaining,
		})
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Recent{Recent: page}
	return answer
}

// recentPage copies the records of a page. If the cursor's record has left the log, all older ones have too.
func (p *Partition) recentPage(id event.AccountID, q *event.RecentQuery, after event.RequestID, now int64, limit int) (page []recent.Record) {
	begun := after == event.RequestID{}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recent.Each(uint64(id), func(r *recent.Record) bool {
		switch {
		case now-r.TimeMillis >= recent.KeepMillis:
			return false
		case !begun:
			begun = r.Request == after
		case matches(q, r):
			page = append(page, *r)
		}
		return len(page) < limit
	})
	return page
}

// matchesDecision treats quota_held as one filter for everything that calls in flight may undo, whichever rule refused it.
func matchesDecision(q *event.RecentQuery, r *recent.Record) bool {
	held := r.Status == recent.Held && event.Decision(r.Decision) != event.Decision_ANONYMOUS_LIMIT
	if q.Held || held {
		return q.Decision == 0 || q.Held == held
	}
	return q.Decision == 0 || q.Decision == event.Decision(r.Decision)
}

// matches reports whether a record passes the filters of a query.
func matches(q *event.RecentQuery, r *recent.Record) bool {
	switch {
	case q.QuotaKey != 0 && q.QuotaKey != uint32(r.QuotaKey),
		q.Key != nil && *q.Key != r.Key,
		!matchesDecision(q, r),
		r.TimeMillis < q.FromMs,
		q.ToMs != 0 && r.TimeMillis >= q.ToMs:
		return false
	}
	return true
}
