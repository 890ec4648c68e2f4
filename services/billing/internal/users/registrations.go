package users

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// registrations has a document for each user registered by a source on a day: its id consists of the source, the day, and the
// user's number on that day. Each id can be taken once, so the limit is exact across instances and edges. Numbers have no gaps.
const registrations = "billing_registrations"

const oneDay = 24 * time.Hour

func registrationID(source uint64, day time.Time, number int) string {
	return event.AccountID(source).String() + "/" + day.Format(time.DateOnly) + "/" + strconv.Itoa(number)
}

// limited counts a registration of a source; others are its ids under other secrets. It returns the answer if the source is over
// its limit for the UTC day, and nil otherwise.
func (u *Users) limited(ctx context.Context, source uint64, others []uint64) (*event.UserAnswer, error) {
	now := u.clock().UTC()
	day := now.Truncate(oneDay)
	ends := day.Add(oneDay).UnixMilli()
	number, err := u.registered(ctx, source, day)
	if err != nil {
		return nil, err
	}
	limit := u.registerLimit
	for _, other := range others {
		made, err := u.registered(ctx, other, day)
		if err != nil {
			return nil, err
		}
		limit -= made
	}
	for ; number < limit; number++ {
		err := u.store.Insert(ctx, registrations, views.Doc{
			ID: registrationID(source, day, number), Head: []byte{}, Keys: views.Keys{{Name: "expires", Value: views.Int(ends)}},
		})
		if !errors.Is(err, views.ErrExists) {
			return nil, err
		}
		// Another registration was faster.
	}
	return &event.UserAnswer{Status: event.UserStatus_USER_LIMITED, Limit: int64(u.registerLimit), ResetMs: ends}, nil
}

// registered is the number of users a source has registered on a day, up to the limit.
func (u *Users) registered(ctx context.Context, source uint64, day time.Time) (int, error) {
	low, high := 0, u.registerLimit // the first low exist; number high does not, or is the limit
	for low < high {
		middle := low + (high-low)/2
		docs, err := u.store.Load(ctx, registrations, []string{registrationID(source, day, middle)}, views.Heads)
		if err != nil {
			return 0, fmt.Errorf("count registrations: %w", err)
		}
		if len(docs) > 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}
