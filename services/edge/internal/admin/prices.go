package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
	"quire.dev/services/edge/internal/prices"
)

var errEarlierBilling = errors.New("an instance of billing runs a version that does not know applied price books")

// Actions on price books in the admin log.
const (
	noteApply    = "prices.apply"
	noteWithdraw = "prices.withdraw"
)

type booksView struct {
	endpoint.Success
	Current  prices.Shown   `json:"current"`
	Upcoming []prices.Shown `json:"upcoming"`
	Past     []prices.Shown `json:"past"` // newest first
}

// showPrices answers with all price books, as billing has them now.
func (s *Admin) showPrices(c *endpoint.Call) error {
	list, err := s.BooksNow()
	if err != nil {
		return err
	}
	view := booksView{Success: endpoint.Succeeded(), Current: prices.Show(prices.Current(list)), Upcoming: prices.ShowAll(list.Upcoming), Past: []prices.Shown{}}
	for _, b := range slices.Backward(list.Books[:len(list.Books)-1]) {
		view.Past = append(view.Past, prices.Show(b))
	}
	return s.JSON(c.Ctx, fiber.StatusOK, view)
}

// showOnePrices answers with a past, present or upcoming book.
func (s *Admin) showOnePrices(c *endpoint.Call) error {
	list, err := s.BooksNow()
	if err != nil {
		return err
	}
	return prices.Answer(s.Base, c, list)
}

// BookChange is an applied price book, or what applying it would do.
type BookChange struct {
	ID          string          `json:"id"`
	EffectiveAt string          `json:"effectiveAt"`
	DryRun      bool            `json:"dryRun"`
	Changes     []prices.Change `json:"changes"`
	Accounts    []PlanAccounts  `json:"accounts"` // on each plan of the book
}

// PlanAccounts is the number of accounts on a plan.
type PlanAccounts struct {
	Plan     string `json:"plan"`
	Accounts uint64 `json:"accounts"`
}

type bookChangeView struct {
	endpoint.Success
	BookChange
}

// applyPrices applies a price book at a time, or shows what that would change.
func (s *Admin) applyPrices(c *endpoint.Call) error {
	dryRun := false
	err := input.QueryFields(c.Ctx, input.Fields{"dryRun": input.To(&dryRun, input.BoolField)}.Set)
	if err != nil {
		return err
	}
	change, err := s.BookApplied(c, input.JSON(c.Fields), dryRun)
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, bookChangeView{endpoint.Succeeded(), *change})
}

// BookApplied reads {book, effectiveAt}, and applies it unless it is a dry run.
func (s *Admin) BookApplied(c *endpoint.Call, from input.Source, dryRun bool) (*BookChange, error) {
	list, err := s.BooksNow()
	if err != nil {
		return nil, err
	}
	if list.Rules < pricebook.Rules {
		return nil, endpoint.Unavailable(errEarlierBilling)
	}
	var book *plan.Book
	var effective time.Time
	err = from(input.Fields{
		"book": func(name string, v input.Value) (err error) {
			book, err = prices.Read(name, v, prices.Tiers(list))
			return err
		},
		"effectiveAt": input.To(&effective, input.TimeField),
	}.Set)
	switch ahead := effective.Sub(s.Now()); {
	case err != nil:
		return nil, err
	case book == nil:
		return nil, httperr.InvalidField("book", "is required")
	case effective.IsZero():
		return nil, httperr.InvalidField("effectiveAt", "is required")
	case ahead > prices.MaxAhead:
		return nil, httperr.InvalidField("effectiveAt", "must be within two years")
	}
	applied, err := pricebook.Applied(book, effective.UnixMilli())
	if err != nil {
		return nil, err
	}
	known := prices.Find(list, applied.Id) != nil
	switch {
	case known: // sent again
	case effective.Sub(s.Now()) < prices.MinAhead:
		return nil, httperr.InvalidField("effectiveAt", "must be at least a minute ahead, so that all parts of billing have the book in time")
	case slices.Contains(list.Withdrawn, applied.Id):
		return nil, fault.New(fault.PriceBookConflict, "This book was withdrawn. Apply it for another time.")
	case len(list.Books)+len(list.Upcoming)+len(list.Withdrawn) >= pricebook.Max:
		return nil, fault.New(fault.PriceBookConflict, "There are %d price books. There can be no more.", pricebook.Max)
	}
	before, err := prices.Fits(list, book, effective)
	if err != nil && !known {
		return nil, err
	}
	change := &BookChange{ID: applied.Id, EffectiveAt: endpoint.FormatTime(applied.EffectiveMs), DryRun: dryRun, Changes: []prices.Change{}}
	if before != nil {
		change.Changes = prices.Changes(before, book)
	}
	if change.Accounts, err = s.accountsOn(book); err != nil || dryRun {
		return change, err
	}
	return change, s.writeBook(c, noteApply, applied)
}

// accountsOn counts the accounts on each plan of a book.
func (s *Admin) accountsOn(book *plan.Book) ([]PlanAccounts, error) {
	counts, err := s.bus.AccountsByTier(s.ctx)
	if err != nil {
		return nil, err
	}
	var out []PlanAccounts
	for _, tier := range book.Tiers() {
		out = append(out, PlanAccounts{book.Plans[tier].Name, counts[tier]})
	}
	return out, nil
}

func (s *Admin) writeBook(c *endpoint.Call, action string, book *event.PriceBook) error {
	if err := s.note(c, 0, action, book.Id); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, bookTimeout)
	defer cancel()
	if err := s.bus.ApplyBook(ctx, book); err != nil {
		return err
	}
	_, err := s.BooksNow() // so that pages show it
	return err
}

// bookTimeout bounds how long a book may take to reach all partitions.
const bookTimeout = 20 * time.Second

type withdrawnView struct {
	endpoint.Success
	Withdrawn string `json:"withdrawn"`
}

// withdrawPrices withdraws an upcoming price book.
func (s *Admin) withdrawPrices(c *endpoint.Call) error {
	id := c.Params("id")
	if err := s.BookWithdrawn(c, id); err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, withdrawnView{endpoint.Succeeded(), id})
}

// BookWithdrawn withdraws an upcoming price book.
func (s *Admin) BookWithdrawn(c *endpoint.Call, id string) error {
	list, err := s.BooksNow()
	if err != nil {
		return err
	}
	book := prices.Find(list, id)
	switch {
	case slices.Contains(list.Withdrawn, id): // sent again
	case book == nil:
		return endpoint.NotFound()
	case time.UnixMilli(book.FromMs).Sub(s.Now()) < prices.MinAhead:
		return fault.New(fault.PriceBookConflict, "This book is in force, or will be within a minute: it can't be withdrawn. Apply another one.")
	default:
		for _, later := range list.Upcoming {
			if later.FromMs > book.FromMs {
				return fault.New(fault.PriceBookConflict, "The book %s was made to follow this one. Withdraw it first.", later.Book.Id)
			}
		}
	}
	return s.writeBook(c, noteWithdraw, &event.PriceBook{Id: id, Withdrawn: true})
}
