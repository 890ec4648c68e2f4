// Package webhooks keeps the addresses of webhooks and delivers alerts to them, and to account holders by e-mail. The fold (package account) decides what a
// webhook is notified of, in the journal. Addresses and secrets are only in the read model, since an address may be personal
// data and a journal is permanent.
package webhooks

import (
	"slices"
	"time"

	"quire.dev/pkg/alert"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

const (
	addresses  = "billing_webhooks"
	alerts     = "billing_alerts"
	deliveries = "billing_deliveries"
	leases     = "billing_leases"

	byAccount   = "by_account"
	byPartition = "by_partition"
	byWebhook   = "by_webhook"
	byDue       = "by_due"
	byExpiry    = "by_expiry"
	byBacklog   = "by_backlog" // of pending deliveries of content

	// retention of alerts and deliveries, from the time of the alert.
	retention = 30 * 24 * time.Hour
)

// SendsFrom reports whether the sender needs a collection.
func SendsFrom(collection string) bool { return collection == addresses || collection == deliveries }

// Collections returns the collections of addresses, leases, alerts and deliveries.
func Collections() []views.Collection {
	return append([]views.Collection{
		{Name: addresses, Indexes: []views.Index{{Name: byAccount, Keys: []string{"account"}}, {Name: byPartition, Keys: []string{"partition"}}}},
		{Name: leases},
	}, Projected()...)
}

// Projected returns the collections of what the fold decides: alerts and deliveries.
func Projected() []views.Collection {
	return []views.Collection{
		{Name: alerts, Indexes: []views.Index{{Name: byAccount, Keys: []string{"account", "position"}}, {Name: byExpiry, Keys: []string{"expires"}}}},
		{Name: deliveries, Indexes: []views.Index{
			{Name: byDue, Keys: []string{"due"}},
			{Name: byWebhook, Keys: []string{"webhook", "position"}},
			{Name: byExpiry, Keys: []string{"expires"}},
			backlogIndex(),
		}},
	}
}

// Puts returns the documents of the alerts caused by the message at a sequence: each alert, and its delivery to each subscribed
// webhook and by e-mail. A delivery changed since by the sender is newer than its Put.
func Puts(sequence uint64, list []*event.Alert) (puts []views.Put, err error) {
	for _, a := range list {
		head, err := event.Encode(a)
		if err != nil {
			return nil, err
		}
		owner := event.AccountID(a.Account).String()
		puts = append(puts, views.Put{Collection: alerts, Doc: views.Doc{
			ID: owner + "." + a.Position, Seq: sequence, Head: head,
			Keys: views.Keys{{Name: "account", Value: views.String(owner)}, {Name: "position", Value: views.String(a.Position)}, {Name: "expires", Value: views.Int(expiry(a))}},
		}})
		for _, webhook := range targets(a) {
			doc, err := deliveryDoc(&event.Delivery{Alert: a, Webhook: webhook, NextMs: a.TimeMs, Sequence: sequence}, sequence)
			if err != nil {
				return nil, err
			}
			puts = append(puts, views.Put{Collection: deliveries, Doc: doc})
		}
	}
	return puts, nil
}

// byMail stands for the account holder's e-mail among the targets of an alert. No webhook has this number.
const byMail = 0

// targets are the webhooks that an alert is delivered to, and byMail.
func targets(a *event.Alert) []uint64 {
	if !a.Mail {
		return a.Webhooks
	}
	return append(slices.Clip(a.Webhooks), byMail)
}

func expiry(a *event.Alert) int64 { return a.TimeMs + retention.Milliseconds() }

// addressID is the id of a webhook's address, and the value of the key "webhook" of its deliveries.
func addressID(account event.AccountID, webhook uint64) string {
	return account.String() + "." + alert.WebhookName(webhook)
}

func deliveryID(account event.AccountID, webhook uint64, alert string) string {
	return addressID(account, webhook) + "." + alert
}

func deliveryDoc(d *event.Delivery, seq uint64) (views.Doc, error) {
	head, err := event.Encode(d)
	if err != nil {
		return views.Doc{}, err
	}
	account := event.AccountID(d.Alert.Account)
	keys := views.Keys{
		{Name: "webhook", Value: views.String(addressID(account, d.Webhook))},
		{Name: "position", Value: views.String(d.Alert.Position)},
		{Name: "expires", Value: views.Int(expiry(d.Alert))},
	}
	if d.Status == event.DeliveryStatus_DELIVERY_PENDING {
		keys = append(keys, views.Key{Name: "due", Value: views.Int(d.NextMs)})
		if c := d.Alert.Content; c != nil {
			keys = append(keys, views.Key{Name: "backlog", Value: views.String(account.String())}, views.Key{Name: "object", Value: views.String(objectOf(d))})
		}
	}
	return views.Doc{ID: deliveryID(account, d.Webhook, d.Alert.Id), Seq: seq, Head: head, Keys: keys}, nil
}

// changed is the document of a delivery changed by the sender or its owner. It is newer than what the projection writes, even
// again after a crash.
func changed(d *event.Delivery) (views.Put, error) {
	doc, err := deliveryDoc(d, d.Sequence+1)
	return views.Put{Collection: deliveries, Doc: doc}, err
}

func decodeDelivery(doc views.Doc) (*event.Delivery, error) {
	d := &event.Delivery{}
	if err := event.Decode(doc.Head, d); err != nil {
		return nil, err
	}
	if d.Alert == nil {
		d.Alert = &event.Alert{}
	}
	return d, nil
}
