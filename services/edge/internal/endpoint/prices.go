package endpoint

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"quire.dev/pkg/event"
)

// pricesAge is how long a price book is cached.
const pricesAge = 30 * time.Second

// priceCache caches the price books for pages. Only billing decides what a request costs.
type priceCache struct {
	asking singleflight.Group
	last   atomic.Pointer[pricesAt]
}

type pricesAt struct {
	list *event.PriceList
	at   time.Time
}

// Prices returns the price book in force, or the last known one with an error.
func (s *Base) Prices() (*event.PriceBook, error) {
	list, err := s.Books()
	if list == nil {
		return nil, err
	}
	return list.Books[len(list.Books)-1].Book, err
}

// Books returns all price books, or the last known ones with an error. There is at least one.
func (s *Base) Books() (*event.PriceList, error) {
	known := s.priceBook.last.Load()
	if known != nil && s.Now().Sub(known.at).Abs() < pricesAge {
		return known.list, nil
	}
	found, err, _ := s.priceBook.asking.Do("", func() (any, error) { return s.BooksNow() })
	if err != nil {
		if known != nil {
			return known.list, err
		}
		return nil, err
	}
	return found.(*event.PriceList), nil
}

// BooksNow asks billing for all price books. There is at least one.
func (s *Base) BooksNow() (*event.PriceList, error) {
	ctx, cancel := context.WithTimeout(s.ctx, QuotaNowWait)
	defer cancel()
	list, err := s.bus.Books(ctx)
	switch {
	case err != nil:
		return nil, err
	case len(list.Books) == 0:
		return nil, Unavailable(ErrQueryAnswer)
	}
	s.priceBook.last.Store(&pricesAt{list, s.Now()})
	return list, nil
}

// QuotaNowWait limits how long a finished answer waits for its rate-limit headers.
const QuotaNowWait = time.Second
