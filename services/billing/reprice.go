package billing

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/partition"
)

// Repriced is an account's month by the books that were in force, and by another one. The other one decides about the same requests
// anew: those that it refuses are not charged, and those that only it admits count as served.
type Repriced struct {
	Account event.AccountID
	Was     Bill
	WouldBe Bill
}

// Bill is what an account owes for a month.
type Bill struct {
	Plan         string // at the month's end, or now
	Requests     uint64 // admitted
	Refused      uint64 // of those that reached billing, because of the plan's limits, credits or a spending cap
	SpentMicros  uint64 // credits, less those that admins gave back
	SpentCents   uint64 // the same at the book's price of a credit, rounded down
	FeesCents    uint64
	StorageCents uint64
}

// Cents is the sum.
func (b Bill) Cents() uint64 { return b.SpentCents + b.FeesCents + b.StorageCents }

// Reprice returns each account of a partition that has a statement of the month, such as "2026-11", as of now, in the order of their ids.
// replay calls its argument with the messages of the journal from the first one on, until it returns an error, which replay returns;
// it is called twice. book makes the other book, given the installation's.
func Reprice(number int, month string, now time.Time, replay func(func(journal.Message) error) error, book func(*event.PriceList) (*plan.Book, error)) ([]Repriced, error) {
	start, end, ok := account.Month(month)
	if !ok {
		return nil, fmt.Errorf("%q is not a month such as 2026-11", month)
	}
	was := &repricing{kinds: partition.KindsOf(number), fold: account.New(), month: month, start: start, end: end, now: now.UnixMilli()}
	if err := was.run(replay); err != nil || was.fold.Prices() == nil {
		return nil, err
	}
	other, err := book(was.fold.Books())
	if err != nil {
		return nil, err
	}
	substitute, err := pricebook.Applied(other, start)
	if err != nil {
		return nil, err
	}
	wouldBe := &repricing{kinds: was.kinds, fold: account.New(), month: month, start: start, end: end, now: was.now}
	wouldBe.fold.Substitute(substitute, start, was.refused)
	if err := wouldBe.run(replay); err != nil {
		return nil, err
	}
	var list []Repriced
	for _, id := range was.fold.AccountIDs() {
		before, ok := was.bill(id)
		if !ok {
			continue
		}
		after, ok := wouldBe.bill(id)
		if !ok {
			return nil, fmt.Errorf("account %s has a bill of %s by one price book alone", id, month)
		}
		list = append(list, Repriced{Account: id, Was: before, WouldBe: after})
	}
	return list, nil
}

// repricing folds a journal until a month can't change any more.
type repricing struct {
	kinds      map[string]account.Kind
	fold       *account.Fold
	month      string
	start, end int64
	now        int64
	refused    map[event.RequestID]struct{} // by prices, since the month's start
	refusals   map[event.AccountID]uint64   // of these, in the month
	closed     map[event.AccountID]*event.StatementAnswer
}

var errMonthOver = errors.New("the month is over")

// staysMillis is how long after its end a month's statement is in the fold: for the shortest month, less a day.
const staysMillis = 27 * 24 * 60 * 60 * 1000

func (r *repricing) run(replay func(func(journal.Message) error) error) error {
	r.fold.Record()
	r.refused, r.refusals, r.closed = map[event.RequestID]struct{}{}, map[event.AccountID]uint64{}, map[event.AccountID]*event.StatementAnswer{}
	err := replay(func(m journal.Message) error {
		if m.Time.UnixMilli()+r.fold.Offset() >= r.end+staysMillis {
			return errMonthOver
		}
		effects, err := r.fold.Apply(partition.MessageOf(m, r.kinds))
		if err != nil && !errors.Is(err, account.ErrUndecodable) {
			return err
		}
		r.note(effects)
		return nil
	})
	if err != nil && !errors.Is(err, errMonthOver) {
		return err
	}
	r.fold.Pass(min(r.now+r.fold.Offset(), r.end)) // in a journal without a message since the month's start
	return nil
}

func (r *repricing) note(effects account.Effects) {
	for _, c := range effects.Requests {
		if !c.Decided || c.TimeMillis < r.start || !refusedByPrices(event.Decision(c.Decision)) {
			continue
		}
		r.refused[c.Request] = struct{}{}
		if c.TimeMillis < r.end {
			r.refusals[c.Account]++
		}
	}
	for _, c := range effects.Closed {
		if c.Statement.Period == r.month {
			r.closed[c.Account] = c.Statement
		}
	}
}

// refusedByPrices reports whether a request was refused because of what a price book says, and not of its key or account.
func refusedByPrices(d event.Decision) bool {
	switch d {
	case event.Decision_QUOTA_EXHAUSTED, event.Decision_PLAN_UPGRADE_REQUIRED, event.Decision_SPENDING_CAP_REACHED:
		return true
	}
	return false
}

// bill is the account's bill of the month; false if it has none.
func (r *repricing) bill(id event.AccountID) (Bill, bool) {
	s := r.closed[id]
	if s == nil {
		s, _ = r.fold.StatementAt(id, r.month, r.fold.TimeMillis())
	}
	if s == nil {
		return Bill{}, false
	}
	b := Bill{
		Plan: plan.Tier(s.Tier).Name(s.Plan), Refused: r.refusals[id], SpentMicros: s.SpentMicros,
		FeesCents: s.FeesCents, StorageCents: s.StorageOverageCents,
	}
	for _, u := range s.Usage {
		b.Requests += u.Used
		b.SpentMicros -= min(b.SpentMicros, u.RefundedMicros)
	}
	b.SpentCents = centsOf(b.SpentMicros, r.creditPrice())
	return b, true
}

// creditPrice is the price of a credit at the month's end, in millionths of a dollar.
func (r *repricing) creditPrice() plan.Micros {
	var price plan.Micros
	for _, b := range r.fold.Books().Books {
		if price == 0 || b.FromMs < r.end {
			price = pricebook.Of(b.Book).CreditPrice
		}
	}
	return price
}

// centsOf is the price of credits in cents, rounded down.
func centsOf(credits uint64, price plan.Micros) uint64 {
	const perCent = uint64(plan.Credit) * uint64(plan.Credit) / 100
	high, low := bits.Mul64(credits, num.Uint64(price))
	if high >= perCent {
		return math.MaxUint64
	}
	cents, _ := bits.Div64(high, low, perCent)
	return cents
}
