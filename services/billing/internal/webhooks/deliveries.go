package webhooks

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// deliveries returns a page of a webhook's past and pending deliveries, newest first.
func (s *Store) deliveries(ctx context.Context, account event.AccountID, webhook uint64, r *event.ListDeliveries) (*event.WebhookAnswer, error) {
	limit := max(1, min(int(r.GetLimit()), maxPage))
	query := views.Query{Index: byWebhook, Equal: []views.Value{views.String(addressID(account, webhook))}, Desc: true, Limit: limit + 1}
	if r.GetBefore() != "" {
		query.After = []views.Value{views.String(r.GetBefore())}
	}
	docs, err := s.store.List(ctx, deliveries, query)
	if err != nil {
		return nil, err
	}
	answer := refusal(event.WebhookStatus_WEBHOOK_OK)
	if answer.More = len(docs) > limit; answer.More {
		docs = docs[:limit]
	}
	for _, doc := range docs {
		d, err := decodeDelivery(doc)
		if err != nil {
			return nil, err
		}
		answer.Deliveries = append(answer.Deliveries, d)
	}
	return answer, nil
}

// replay requests that a delivery be sent again, at once, with the same id.
func (s *Store) replay(ctx context.Context, account event.AccountID, webhook uint64, r *event.ReplayDelivery) (*event.WebhookAnswer, error) {
	if r.GetAlert() == "" || len(r.GetAlert()) > maxAlertID {
		return refusal(event.WebhookStatus_WEBHOOK_NOT_FOUND), nil
	}
	docs, err := s.store.Load(ctx, deliveries, []string{deliveryID(account, webhook, r.GetAlert())}, views.Heads)
	if err != nil {
		return nil, err
	}
	if len(docs) == 0 {
		return refusal(event.WebhookStatus_WEBHOOK_NOT_FOUND), nil
	}
	d, err := decodeDelivery(docs[0])
	if err != nil {
		return nil, err
	}
	if len(r.GetChange()) > 0 && bytes.Equal(d.Change, r.GetChange()) {
		return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK, Deliveries: []*event.Delivery{d}, Replayed: true}, nil
	}
	d.Status, d.NextMs, d.Tries, d.Change = event.DeliveryStatus_DELIVERY_PENDING, s.now(), 0, r.GetChange()
	put, err := changed(d)
	if err != nil {
		return nil, err
	}
	if err := s.store.Commit(ctx, views.Batch{Puts: []views.Put{put}}); err != nil {
		return nil, err
	}
	return &event.WebhookAnswer{Status: event.WebhookStatus_WEBHOOK_OK, Deliveries: []*event.Delivery{d}}, nil
}

// Alerts returns a page of an account's alerts after a position, oldest first, and the position of the last one. Without a
// position it returns only the newest alert's position.
func Alerts(ctx context.Context, store views.Store, account event.AccountID, after string, limit int) (*event.AlertsAnswer, error) {
	query := views.Query{Index: byAccount, Equal: []views.Value{views.String(account.String())}, Limit: limit}
	if after != "" {
		query.After = []views.Value{views.String(after)}
		query.AfterID = account.String() + "." + after
	} else {
		query.Desc, query.Limit = true, 1
	}
	docs, err := store.List(ctx, alerts, query)
	if err != nil {
		return nil, fmt.Errorf("list alerts: %w", err)
	}
	answer := &event.AlertsAnswer{Last: after}
	for _, doc := range docs {
		a := &event.Alert{}
		if err := event.Decode(doc.Head, a); err != nil {
			return nil, err
		}
		answer.Last = a.Position
		if after != "" {
			answer.Alerts = append(answer.Alerts, a)
		}
	}
	return answer, nil
}

// Sweep deletes a partition's addresses that are older than abandoned and whose webhooks are not in its journal, with their
// deliveries. known reports whether a webhook is, as of now.
func Sweep(ctx context.Context, store views.Store, partition int, now time.Time, known func(account event.AccountID, webhook uint64) bool) error {
	s := &Store{store: store}
	index := views.Index{Name: byPartition, Keys: []string{"partition"}}
	query := views.Query{Equal: []views.Value{views.Int(int64(partition))}, Limit: sweepPage}
	return views.Each(ctx, store, addresses, index, query, func(doc views.Doc) error {
		a, err := decodeAddress(doc)
		if err != nil {
			return err
		}
		if now.UnixMilli()-a.CreatedMs < abandoned.Milliseconds() || known(event.AccountID(a.Account), a.Webhook) {
			return nil
		}
		return s.deleteAll(ctx, doc.ID)
	})
}
