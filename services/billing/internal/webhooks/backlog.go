package webhooks

import (
	"context"
	"fmt"
	"time"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// Content can change faster than a receiver responds, so pending content deliveries are counted by account, and deliveries about one
// object are posted in the order of its events.

// MaxBacklog bounds the pending content deliveries of an account. More fail immediately. It is below the number of due deliveries that a
// sender looks at, so that one account's never hide all others'.
const MaxBacklog = 1000

const (
	countEvery = time.Second // longest age of a full account's count
	maxCounts  = 10_000      // accounts whose counts are remembered
)

const errBacklog = "too many deliveries of the account are pending"

func backlogIndex() views.Index {
	return views.Index{Name: byBacklog, Keys: []string{"backlog", "object", "position"}}
}

// objectOf names what the deliveries to a webhook are ordered by.
func objectOf(d *event.Delivery) string {
	return alert.WebhookName(d.Webhook) + "." + d.Alert.GetContent().GetItem()
}

// firstOf returns the oldest pending delivery of an object to a webhook; nil: none.
func firstOf(ctx context.Context, store views.Store, d *event.Delivery) (*event.Delivery, error) {
	account := event.AccountID(d.Alert.GetAccount()).String()
	docs, err := store.List(ctx, deliveries, views.Query{
		Index: byBacklog, Equal: []views.Value{views.String(account), views.String(objectOf(d))}, Limit: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("list the deliveries of an object: %w", err)
	}
	if len(docs) == 0 {
		return nil, nil
	}
	return decodeDelivery(docs[0])
}

// Backlog keeps the pending deliveries of content of each account within MaxBacklog. Only one goroutine at a time may use it.
type Backlog struct {
	store  views.Store
	counts map[views.Value]*backlogCount
}

// backlogCount bounds the pending deliveries of an account from above: what was counted, and all that was added since.
type backlogCount struct {
	pending int
	counted time.Time
}

// NewBacklog returns a Backlog over a read model opened with Collections.
func NewBacklog(store views.Store) *Backlog {
	return &Backlog{store: store, counts: map[views.Value]*backlogCount{}}
}

// Forget forgets all counts, after another instance has written.
func (b *Backlog) Forget() { clear(b.counts) }

// Limit marks new deliveries in puts that exceed their account's limit as failed, and counts the others.
func (b *Backlog) Limit(ctx context.Context, puts []views.Put) error {
	for i := range puts {
		account, is := puts[i].Doc.Keys.Find("backlog")
		if puts[i].Collection != deliveries || !is {
			continue
		}
		free, err := b.take(ctx, account)
		if err != nil {
			return err
		}
		if free {
			continue
		}
		d, err := decodeDelivery(puts[i].Doc)
		if err != nil {
			return err
		}
		d.Status, d.NextMs = event.DeliveryStatus_DELIVERY_FAILED, 0
		d.Attempts = []*event.DeliveryAttempt{{TimeMs: d.Alert.TimeMs, Error: errBacklog}}
		if puts[i].Doc, err = deliveryDoc(d, puts[i].Doc.Seq); err != nil {
			return err
		}
	}
	return nil
}

// take counts one more delivery of an account, unless it has too many.
func (b *Backlog) take(ctx context.Context, account views.Value) (bool, error) {
	c := b.counts[account]
	if c == nil {
		if len(b.counts) >= maxCounts {
			b.Forget()
		}
		c = &backlogCount{pending: MaxBacklog}
		b.counts[account] = c
	}
	if now := time.Now(); c.pending >= MaxBacklog && now.Sub(c.counted) >= countEvery {
		docs, err := b.store.List(ctx, deliveries, views.Query{Index: byBacklog, Equal: []views.Value{account}, Limit: MaxBacklog})
		if err != nil {
			return false, fmt.Errorf("count pending deliveries: %w", err)
		}
		c.pending, c.counted = len(docs), now
	}
	if c.pending >= MaxBacklog {
		return false, nil
	}
	c.pending++
	return true, nil
}
