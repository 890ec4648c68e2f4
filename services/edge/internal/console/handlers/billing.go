package handlers

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
)

// searchPages limits how many pages of the ledger a search requests from billing until one has a match.
const searchPages = 5

// showBilling shows the account's credits, statements, spending caps and alerts.
func (s *Handlers) showBilling(c *endpoint.Call) error {
	u, err := s.LookAtUsage(c, &event.UsageQuery{Keys: true, Grants: console.MostGrants})
	if err != nil {
		return err
	}
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	latest, err := s.accounts.LedgerPage(c.Who.Account, &event.LedgerQuery{Limit: console.LatestEntries})
	if err != nil {
		return err
	}
	webhooks, err := s.accounts.WebhookRules(c)
	if err != nil {
		return err
	}
	return s.console.Billing(c.Ctx, &console.Billing{
		Holder: holder, Usage: u, Keys: s.consoleKeys(u), Latest: consoleEntries(latest), Webhooks: len(webhooks),
	})
}

func consoleEntries(page *event.LedgerAnswer) (out []console.Entry) {
	for _, e := range page.Entries {
		out = append(out, console.Entry{LedgerEntry: e, RequestID: endpoint.Optional(endpoint.RequestIDText(e.RequestId))})
	}
	return out
}

// showLedger shows a page of the ledger, as ledger answers it. An invalid search shows its error beside the field.
func (s *Handlers) showLedger(c *endpoint.Call) error {
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	shown := &console.Ledger{Holder: holder, Cursor: strings.Clone(c.Query("cursor"))}
	var q *event.LedgerQuery
	if shown.Search, q, err = searchOf(c); err != nil {
		e := endpoint.AsFault(err)
		refuse(shown.Search, e)
		return s.console.Ledger(c.Ctx, e.Kind.Status(), shown)
	}
	q.Limit = endpoint.DefaultPage
	for range searchPages {
		page, err := s.accounts.LedgerPage(c.Who.Account, q)
		if err != nil {
			return err
		}
		next := accounts.ViewLedger(page).NextCursor
		shown.Entries, shown.Next, q.Cursor = consoleEntries(page), endpoint.Optional(next), page.NextCursor
		if len(shown.Entries) > 0 || next == nil {
			break
		}
	}
	return s.console.Ledger(c.Ctx, fiber.StatusOK, shown)
}

// showLedgerTable answers with the matches of a search in CSV, as ledger does.
func (s *Handlers) showLedgerTable(c *endpoint.Call) error {
	_, q, err := searchOf(c)
	if err != nil {
		return err
	}
	return s.accounts.LedgerTable(c, q, accounts.MaxTable)
}

// searchOf parses the ledger search in a page's address. It returns the form even for an invalid search.
func searchOf(c *endpoint.Call) (*console.Form, *event.LedgerQuery, error) {
	search, form := &accounts.LedgerSearch{}, console.SearchLedger(map[string]string{})
	err := readFilters(c, form, search.Fields())
	form = console.SearchLedger(form.Values) // a field for days may hold an invalid one
	if err != nil {
		return form, nil, err
	}
	q, err := search.Query()
	return form, q, err
}
