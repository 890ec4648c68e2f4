package webhooks

import (
	"context"
	"fmt"

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
	query := views.Query{Index: byAccount, Equal: []views.Value{views.String(account.String())}, Limit: sweepPage}
	index := views.Index{Name: byAccount, Keys: []string{"account", "position"}}
	for {
		docs, err := store.List(ctx, alerts, query)
		if err != nil {
			return fmt.Errorf("list alerts: %w", err)
		}
		for _, doc := range docs {
			if err := do(doc); err != nil {
				return err
			}
		}
		if len(docs) < sweepPage {
			return nil
		}
		query = query.NextAfter(index, docs[len(docs)-1])
	}
}
