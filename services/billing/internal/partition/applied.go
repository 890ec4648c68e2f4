package partition

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/wait"
	"quire.dev/services/billing/internal/account"
)

// Applied price books are in the journal of every partition. An edge sends a book to the first partition, then to the others. If
// it dies in between, the others take the book from the first: followBooks.

// followEvery is the interval between questions to the first partition.
const followEvery = 3 * time.Second

// refusedBook is the error of a book that the fold would not take.
const refusedBook = "book_refused"

// applyPrices publishes an applied book, or its withdrawal, unless the fold has it, and answers with the books.
func (p *Partition) applyPrices(ctx context.Context, book *event.PriceBook) (*event.QueryAnswer, error) {
	p.mu.Lock()
	rules, books := p.fold.Rules(), p.fold.Books()
	p.mu.Unlock()
	switch {
	case rules < account.Rules4:
		return nil, &rpc.Error{Code: refusedBook, Message: "some instances of billing run a version that does not know applied price books"}
	case book.Id == "":
		return nil, &rpc.Error{Code: codeMalformed, Message: "an applied book without an id"}
	case !book.Withdrawn && slices.Contains(books.Withdrawn, book.Id):
		return nil, &rpc.Error{Code: refusedBook, Message: "this book was withdrawn: apply it for another time"}
	}
	if err := p.takeBook(ctx, book); err != nil {
		return nil, err
	}
	return p.priceList(false), nil
}

// takeBook publishes an applied book, or its withdrawal, unless the fold has it.
func (p *Partition) takeBook(ctx context.Context, book *event.PriceBook) error {
	folded := func() bool {
		books := p.fold.Books()
		if book.Withdrawn {
			return !upcoming(books, book.Id)
		}
		return hasBook(books, book.Id) || slices.Contains(books.Withdrawn, book.Id)
	}
	for ctx.Err() == nil {
		p.mu.Lock()
		done, taken := folded(), book.Withdrawn || p.fold.TakesBook(book)
		p.mu.Unlock()
		if done {
			return nil
		}
		if !taken { // perhaps another one came in between
			return &rpc.Error{Code: refusedBook, Message: "there are too many price books, or another one has a plan of the same number or name"}
		}
		if err := p.publishUntil(ctx, book, folded); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func upcoming(books *event.PriceList, id string) bool {
	return slices.ContainsFunc(books.Upcoming, func(b *event.BookState) bool { return b.Book.Id == id })
}

func hasBook(books *event.PriceList, id string) bool {
	return upcoming(books, id) || slices.ContainsFunc(books.Books, func(b *event.BookState) bool { return b.Book.Id == id })
}

// keepBooks follows the first partition's books, in every other one.
func (p *Partition) keepBooks(ctx context.Context) error {
	for p.cfg.Partition > 0 {
		if err := p.followBooks(ctx); err != nil {
			return err
		}
		if !wait.For(ctx, followEvery) {
			return nil
		}
	}
	return nil
}

// followBooks takes the applied books that the first partition has and this one lacks, and withdraws what was withdrawn there.
func (p *Partition) followBooks(ctx context.Context) error {
	p.mu.Lock()
	rules, have := p.fold.Rules(), p.fold.Books()
	p.mu.Unlock()
	if rules < account.Rules4 {
		return nil
	}
	first, err := p.firstBooks(ctx)
	if err != nil {
		p.log.Debug("the first partition's price books are not known", "error", err)
		return nil
	}
	for _, b := range slices.Concat(first.Books, first.Upcoming) {
		if b.Book.Id != "" && !hasBook(have, b.Book.Id) {
			err := p.takeBook(ctx, proto.Clone(b.Book).(*event.PriceBook))
			var refused *rpc.Error
			if errors.As(err, &refused) {
				p.log.Error("a price book of the first partition has no effect in this one", "id", b.Book.Id, "error", err)
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	for _, b := range have.Upcoming {
		if slices.Contains(first.Withdrawn, b.Book.Id) {
			if err := p.takeBook(ctx, &event.PriceBook{Id: b.Book.Id, Withdrawn: true}); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstBooks asks for the price books of the first partition.
func (p *Partition) firstBooks(ctx context.Context) (*event.PriceList, error) {
	asking, cancel := context.WithTimeout(ctx, foldWait)
	defer cancel()
	data, err := event.Encode(&event.Query{Query: &event.Query_Prices{Prices: &event.PricesQuery{List: true}}})
	if err != nil {
		return nil, err
	}
	if data, err = rpc.Call(asking, p.deps.NC, event.QuerySubject(0), data); err != nil {
		return nil, err
	}
	answer := &event.QueryAnswer{}
	if err := event.Decode(data, answer); err != nil {
		return nil, err
	}
	list := answer.GetPriceList()
	if list == nil {
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: "an instance of an earlier version answered"}
	}
	return list, nil
}

// priceList answers with all price books.
func (p *Partition) priceList(count bool) *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.fold.Books()
	if count {
		list.Accounts = p.fold.AccountsByTier()
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_PriceList{PriceList: list}
	return answer
}
