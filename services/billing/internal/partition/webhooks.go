package partition

import (
	"context"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/webhooks"
)

// webhooks returns an account's subscriptions, once their deliveries so far are in the read model, which the caller queries
// next.
func (p *Partition) webhooks(ctx context.Context, id event.AccountID, last uint64) (*event.QueryAnswer, error) {
	if err := p.projection.Wait(ctx, last); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fold.Exists(id) {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Webhooks{Webhooks: &event.WebhooksAnswer{Webhooks: p.fold.Webhooks(id)}}
	return answer, nil
}

// alerts reads from the read model, as ledger does.
func (p *Partition) alerts(ctx context.Context, id event.AccountID, q *event.AlertsQuery, last uint64) (*event.QueryAnswer, error) {
	if q.GetAfter() != "" && !account.ValidLedgerID(q.GetAfter()) {
		return status(event.QueryStatus_QUERY_INVALID_CURSOR), nil
	}
	if err := p.projection.Wait(ctx, last); err != nil {
		return nil, err
	}
	page, err := webhooks.Alerts(ctx, p.deps.Views, id, q.GetAfter(), max(1, min(int(q.GetLimit()), maxPage)))
	if err != nil {
		return nil, err
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Alerts{Alerts: page}
	return answer, nil
}

// webhookSweep is the interval between sweeps of addresses without a webhook.
const webhookSweep = time.Hour

// sweepWebhooks deletes addresses whose webhook is not in the journal. It skips addresses younger than a creation takes, and
// first folds up to the end confirmed by a majority of the journal's servers: a replica that was cut off would delete too much.
func (p *Partition) sweepWebhooks(ctx context.Context) {
	p.sweep(ctx, webhookSweep, "addresses without a webhook could not be deleted yet", func() error {
		confirmed := false
		return webhooks.Sweep(ctx, p.deps.Views, p.cfg.Partition, p.now(), func(id event.AccountID, webhook uint64) bool {
			if p.hasWebhook(id, webhook) {
				return true
			}
			if !confirmed {
				last, err := p.end.LastSequence(ctx)
				if err == nil {
					err = p.position.Until(ctx, last)
				}
				if err != nil {
					return true
				}
				confirmed = true
			}
			return p.hasWebhook(id, webhook)
		})
	})
}

func (p *Partition) hasWebhook(id event.AccountID, webhook uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.fold.Webhooks(id), func(w *event.WebhookRules) bool { return w.Webhook == webhook })
}
