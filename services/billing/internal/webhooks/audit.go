package webhooks

import (
	"context"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// Alerts and their documents, for an audit of the read model.

// AlertsCollection holds the alerts.
const AlertsCollection = alerts

// ExpiryMillis is when a stored alert may be deleted.
func ExpiryMillis(doc views.Doc) int64 { return doc.Keys.Get("expires").Int64() }

// EachAlert calls do with every stored alert of an account, oldest first.
func EachAlert(ctx context.Context, store views.Store, account event.AccountID, do func(views.Doc) error) error {
	index := views.Index{Name: byAccount, Keys: []string{"account", "position"}}
	query := views.Query{Equal: []views.Value{views.String(account.String())}, Limit: sweepPage}
	return views.Each(ctx, store, alerts, index, query, do)
}
