package bus

import (
	"context"
	"sync"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Books asks for all price books, as the first partition of billing has them: the others take them from it.
func (b *Bus) Books(ctx context.Context) (*event.PriceList, error) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	return b.prices(ctx, 0, &event.PricesQuery{List: true})
}

// ApplyBook writes an applied price book, or its withdrawal, to the journal of each partition that lacks it. It can be repeated.
// Once the first partition has it, the others take it also if this call fails.
func (b *Bus) ApplyBook(ctx context.Context, book *event.PriceBook) error {
	first, cancel := context.WithTimeout(ctx, b.cfg.QueryTimeout)
	defer cancel()
	if _, err := b.prices(first, 0, &event.PricesQuery{Apply: book}); err != nil {
		return err
	}
	return b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		if p == 0 {
			return nil
		}
		_, err := b.prices(ctx, p, &event.PricesQuery{Apply: book})
		return err
	})
}

// AccountsByTier counts the accounts on each tier, by its number.
func (b *Bus) AccountsByTier(ctx context.Context) ([]uint64, error) {
	var mu sync.Mutex
	sums := make([]uint64, plan.MaxTiers)
	err := b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		list, err := b.prices(ctx, p, &event.PricesQuery{List: true, Count: true})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for tier, n := range list.Accounts[:min(len(list.Accounts), plan.MaxTiers)] {
			sums[tier] += n
		}
		return nil
	})
	return sums, err
}

func (b *Bus) prices(ctx context.Context, partition int, q *event.PricesQuery) (*event.PriceList, error) {
	answer := &event.QueryAnswer{}
	query := &event.Query{NowMs: b.Now().UnixMilli(), Query: &event.Query_Prices{Prices: q}}
	if err := b.ask(ctx, event.QuerySubject(partition), query, answer, attemptTimeout); err != nil {
		return nil, err
	}
	list := answer.GetPriceList()
	if book := answer.GetPrices(); book != nil && q.Apply == nil { // of an instance of an earlier version
		list = &event.PriceList{Books: []*event.BookState{{FromMs: book.StampMs, Book: book}}, Rules: book.Rules}
	}
	if answer.Status != event.QueryStatus_QUERY_OK || list == nil {
		return nil, unavailable(errAnswer)
	}
	return list, nil
}
