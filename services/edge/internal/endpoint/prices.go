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

// priceCache caches the price book for pages. Only billing decides what a request costs.
type priceCache struct {
	asking singleflight.Group
	last   atomic.Pointer[pricesAt]
}

type pricesAt struct {
	book *event.PriceBook
	at   time.Time
}

// Prices returns the price book in force, or the last known one with an error.
func (s *Base) Prices() (*event.PriceBook, error) {
	known := s.priceBook.last.Load()
	if known != nil && s.Now().Sub(known.at).Abs() < pricesAge {
		return known.book, nil
	}
	found, err, _ := s.priceBook.asking.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(s.ctx, QuotaNowWait)
		defer cancel()
		book, err := s.bus.Prices(ctx)
		if err == nil {
			s.priceBook.last.Store(&pricesAt{book, s.Now()})
		}
		return book, err
	})
	if err != nil {
		if known != nil {
			return known.book, err
		}
		return nil, err
	}
	return found.(*event.PriceBook), nil
}

// QuotaNowWait limits how long a finished answer waits for its rate-limit headers.
const QuotaNowWait = time.Second
