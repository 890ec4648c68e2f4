package handlers

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/admin"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/prices"
)

// showAdminPrices shows the price books.
func (s *Admins) showAdminPrices(c *endpoint.Call) error {
	form := console.ApplyPrices()
	return s.showPricesWith(c, fiber.StatusOK, form, nil)
}

// showPricesWith shows the price books with a form, which is perhaps refused, and what a dry run would change.
func (s *Admins) showPricesWith(c *endpoint.Call, status int, form *console.Form, tried *console.PriceChanges) error {
	list, err := s.BooksNow()
	if err != nil {
		return err
	}
	inForce := prices.Current(list)
	shown := &console.AdminPrices{
		Admin: s.adminHead(c), Done: doneQuery(c), Book: pricebook.Of(inForce.Book), Current: bookRow(inForce), Apply: form, Tried: tried,
	}
	if !form.Has("book") { // the form of a withdrawal
		shown.Apply = console.ApplyPrices()
	}
	current := prices.Of(shown.Book)
	shown.Credit = current.CreditPrice
	if shown.Apply.Values["book"] == "" {
		document, err := json.MarshalIndent(current, "", "  ")
		if err != nil {
			return err
		}
		shown.Apply.Values["book"] = string(document)
	}
	for _, b := range list.Upcoming {
		row := bookRow(b)
		if row.Withdraw = console.WithdrawPrices(row.ID); form.ID == row.Withdraw.ID {
			row.Withdraw = form
		}
		shown.Upcoming = append(shown.Upcoming, row)
	}
	past := list.Books[:len(list.Books)-1]
	for _, b := range slices.Backward(past[max(0, len(past)-console.ShownBooks):]) {
		shown.Past = append(shown.Past, bookRow(b))
	}
	return s.console.AdminPrices(c.Ctx, status, shown)
}

func bookRow(b *event.BookState) console.PriceBook {
	return console.PriceBook{ID: prices.ID(b.Book), FromMs: b.FromMs}
}

// applyPricesByForm applies a price book, or shows what it would change.
func (s *Admins) applyPricesByForm(c *endpoint.Call) error {
	form := console.ApplyPrices()
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			dryRun := form.Values["dryRun"] != ""
			from, err := bookOfForm(form)
			if err != nil {
				return err
			}
			change, err := s.admin.BookApplied(c, from, dryRun)
			if err != nil {
				return err
			}
			if dryRun {
				return s.showPricesWith(c, fiber.StatusOK, form, changesOf(change))
			}
			return redirect(c.Ctx, console.Done(console.AdminPricesPath, "applied"))
		},
		show: func(status int) error { return s.showPricesWith(c, status, form, nil) },
	})
}

// bookOfForm converts the fields of the form to the API's.
func bookOfForm(f *console.Form) (input.Source, error) {
	document := input.Value{Kind: input.Object}
	err := input.ParseObject(bytes.Clone([]byte(f.Values["book"])), func(name string, v input.Value) error {
		document.Members = append(document.Members, input.Member{Name: name, Value: v})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return input.List(textField("effectiveAt", momentOfForm(f.Values["effectiveAt"])), input.Member{Name: "book", Value: document}), nil
}

func changesOf(change *admin.BookChange) *console.PriceChanges {
	accounts := map[string]string{"": "all"}
	for _, n := range change.Accounts {
		accounts[n.Plan] = strconv.FormatUint(n.Accounts, 10)
	}
	out := &console.PriceChanges{}
	for _, d := range change.Changes {
		none := "none"
		if d.Field == "limit" {
			none = "unlimited"
		}
		out.Rows = append(out.Rows, console.PriceChange{
			Plan: cmp.Or(d.Plan, "all"), Accounts: accounts[d.Plan], What: strings.TrimSpace(d.QuotaKey + " " + d.Field),
			From: cmp.Or(endpoint.Optional(d.From), none), To: cmp.Or(endpoint.Optional(d.To), none),
		})
	}
	return out
}

// withdrawPricesByForm withdraws an upcoming price book.
func (s *Admins) withdrawPricesByForm(c *endpoint.Call) error {
	id := c.Params("id")
	form := console.WithdrawPrices(id)
	return s.submit(c, form, submission{
		unlimited: true,
		do: func() error {
			return redirectAfter(s.admin.BookWithdrawn(c, id), c, console.Done(console.AdminPricesPath, "withdrawn"))
		},
		show: func(status int) error { return s.showPricesWith(c, status, form, nil) },
	})
}
