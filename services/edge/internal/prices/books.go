package prices

import (
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// MinAhead and MaxAhead bound how far ahead a book comes into force. Within MinAhead each partition of billing has heard of it.
const (
	MinAhead = time.Minute
	MaxAhead = 2 * 366 * 24 * time.Hour
)

// Shown is a price book as the API shows it.
type Shown struct {
	ID          string `json:"id"`
	EffectiveAt string `json:"effectiveAt"`
	Document
}

// ID identifies a book. That of a configured book is the hash of its content.
func ID(b *event.PriceBook) string {
	if b.Id != "" {
		return b.Id
	}
	return pricebook.Hash(pricebook.Of(b))
}

// Show is the book as the API shows it.
func Show(b *event.BookState) Shown {
	return Shown{ID: ID(b.Book), EffectiveAt: event.FormatTime(b.FromMs), Document: Of(pricebook.Of(b.Book))}
}

// ShowAll shows books in order.
func ShowAll(books []*event.BookState) []Shown {
	shown := []Shown{}
	for _, b := range books {
		shown = append(shown, Show(b))
	}
	return shown
}

// Current is the book in force; nil before the first.
func Current(list *event.PriceList) *event.BookState {
	if n := len(list.GetBooks()); n > 0 {
		return list.Books[n-1]
	}
	return nil
}

// Find returns the newest book with an id, nil without one.
func Find(list *event.PriceList, id string) *event.BookState {
	for _, b := range slices.Backward(slices.Concat(list.GetBooks(), list.GetUpcoming())) {
		if ID(b.Book) == id {
			return b
		}
	}
	return nil
}

// Tiers are the numbers of the plans of all books, by name.
func Tiers(list *event.PriceList) map[string]plan.Tier {
	tiers := map[string]plan.Tier{}
	for _, tier := range plan.Tiers() {
		tiers[tier.String()] = tier
	}
	for _, b := range slices.Concat(list.GetBooks(), list.GetUpcoming()) {
		book := pricebook.Of(b.Book)
		for _, tier := range book.Tiers() {
			tiers[book.Plans[tier].Name] = tier
		}
	}
	return tiers
}

// Fits checks that no plan is lost at a change of books: accounts may be on it. before is the book that the new one replaces.
func Fits(list *event.PriceList, book *plan.Book, effective time.Time) (before *plan.Book, err error) {
	before = pricebook.Of(Current(list).Book)
	for _, b := range list.Upcoming {
		if b.FromMs <= effective.UnixMilli() {
			before = pricebook.Of(b.Book)
			continue
		}
		if name := lost(book, pricebook.Of(b.Book)); name != "" {
			return nil, httperr.InvalidField("book.plans", fmt.Sprintf("must not have the plan %s, which the upcoming book %s lacks: withdraw that first", name, ID(b.Book)))
		}
		break
	}
	if err := keeps(before, book); err != nil {
		return nil, err
	}
	return before, nil
}

// HasPlansOf checks that a book has the plans of the one in force.
func HasPlansOf(list *event.PriceList, book *plan.Book) error {
	return keeps(pricebook.Of(Current(list).Book), book)
}

func keeps(before, book *plan.Book) error {
	if name := lost(before, book); name != "" {
		return httperr.InvalidField("book.plans", fmt.Sprintf("must have the plan %s: accounts may be on it", name))
	}
	return nil
}

// lost is the name of a plan that the next book lacks, empty if it has all.
func lost(book, next *plan.Book) string {
	for _, tier := range book.Tiers() {
		if next.Plans[tier].Name == "" {
			return book.Plans[tier].Name
		}
	}
	return ""
}

// Change is a difference between two books. Values are as in the document, null for none.
type Change struct {
	Plan     string  `json:"plan,omitempty"`
	QuotaKey string  `json:"quotaKey,omitempty"`
	Field    string  `json:"field"` // of the document, the plan or the quota
	From     *string `json:"from"`
	To       *string `json:"to"`
}

// Changes lists what a book changes.
func Changes(from, to *plan.Book) []Change {
	changes := []Change{}
	add := func(c Change, before, after *string) {
		if (before == nil) != (after == nil) || before != nil && *before != *after {
			c.From, c.To = before, after
			changes = append(changes, c)
		}
	}
	a, b := Of(from), Of(to)
	add(Change{Field: "creditPrice"}, &a.CreditPrice, &b.CreditPrice)
	add(Change{Field: "anonymous.limit"}, text(a.Anonymous.Limit), text(b.Anonymous.Limit))
	add(Change{Field: "anonymous.windowSeconds"}, text(a.Anonymous.WindowSeconds), text(b.Anonymous.WindowSeconds))
	for _, after := range b.Plans {
		i := slices.IndexFunc(a.Plans, func(p Plan) bool { return p.Name == after.Name })
		if i < 0 {
			add(Change{Plan: after.Name, Field: "name"}, nil, &after.Name)
			continue
		}
		before := a.Plans[i]
		add(Change{Plan: after.Name, Field: "monthlyFee"}, &before.MonthlyFee, &after.MonthlyFee)
		add(Change{Plan: after.Name, Field: "storage.includedBytes"}, text(before.Storage.IncludedBytes), text(after.Storage.IncludedBytes))
		add(Change{Plan: after.Name, Field: "storage.pricePerGBMonth"}, &before.Storage.PricePerGBMonth, &after.Storage.PricePerGBMonth)
		for k, q := range after.Quotas { // both have every quota key, in the same order
			was := before.Quotas[k]
			add(Change{Plan: after.Name, QuotaKey: q.QuotaKey, Field: "limit"}, limitText(was.Limit), limitText(q.Limit))
			add(Change{Plan: after.Name, QuotaKey: q.QuotaKey, Field: "price"}, was.Price, q.Price)
		}
	}
	return changes
}

func text[T int | int64 | uint64](n T) *string { return new(fmt.Sprint(n)) }

func limitText(limit *int64) *string {
	if limit == nil {
		return nil
	}
	return text(*limit)
}
