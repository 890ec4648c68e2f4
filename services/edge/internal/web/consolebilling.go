package web

import (
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/console"
)

// searchPages bounds the pages of the ledger that billing is asked for until one has an entry that fits a search.
const searchPages = 5

// showBilling shows the credits, statements, spending caps and alerts of the account.
func (s *Server) showBilling(c *call) error {
	u, err := s.usageOf(c, c.who.account, &event.UsageQuery{Keys: true, Grants: console.MostGrants})
	if err != nil {
		return err
	}
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	latest, err := s.ledgerPage(c.who.account, &event.LedgerQuery{Limit: console.LatestEntries})
	if err != nil {
		return err
	}
	webhooks, err := s.webhookRules(c)
	if err != nil {
		return err
	}
	return s.console.Billing(c.Ctx, &console.Billing{
		Holder: holder, Usage: u, Keys: s.consoleKeys(u), Latest: consoleEntries(latest), Webhooks: len(webhooks),
	})
}

func consoleEntries(page *event.LedgerAnswer) (out []console.Entry) {
	for _, e := range page.Entries {
		out = append(out, console.Entry{LedgerEntry: e, RequestID: optional(requestIDText(e.RequestId))})
	}
	return out
}

// showLedger shows a page of the ledger, as ledger answers it. A search that can't be made is told beside its field.
func (s *Server) showLedger(c *call) error {
	holder, err := s.holder(c)
	if err != nil {
		return err
	}
	shown := &console.Ledger{Holder: holder, Cursor: strings.Clone(c.Query("cursor"))}
	var q *event.LedgerQuery
	if shown.Search, q, err = searchOf(c); err != nil {
		e := asFault(err)
		refuse(shown.Search, e)
		return s.console.Ledger(c.Ctx, e.Kind.Status(), shown)
	}
	q.Limit = defaultPage
	for range searchPages {
		page, err := s.ledgerPage(c.who.account, q)
		if err != nil {
			return err
		}
		next := viewLedger(page).NextCursor
		shown.Entries, shown.Next, q.Cursor = consoleEntries(page), optional(next), page.NextCursor
		if len(shown.Entries) > 0 || next == nil {
			break
		}
	}
	return s.console.Ledger(c.Ctx, fiber.StatusOK, shown)
}

// showLedgerTable answers with the entries that fit a search in CSV, as ledger does.
func (s *Server) showLedgerTable(c *call) error {
	_, q, err := searchOf(c)
	if err != nil {
		return err
	}
	return s.ledgerTable(c, q, maxTable)
}

// searchOf reads what the address of a page searches the ledger for. The form is there also where the search can't be made.
func searchOf(c *call) (*console.Form, *event.LedgerQuery, error) {
	search, form := &ledgerSearch{}, console.SearchLedger(map[string]string{})
	err := readFilters(c, form, search.fields())
	form = console.SearchLedger(form.Values) // what is written into a field for days may be none
	if err != nil {
		return form, nil, err
	}
	q, err := search.query()
	return form, q, err
}
