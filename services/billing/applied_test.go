package billing_test

import (
	"errors"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
)

// books are the price books of a partition.
func (s *stack) books(partition int) *event.PriceList {
	s.t.Helper()
	return s.queryAt(partition, &event.Query{Query: &event.Query_Prices{Prices: &event.PricesQuery{List: true}}}).GetPriceList()
}

func (s *stack) applyAt(partition int, book *event.PriceBook) *event.PriceList {
	s.t.Helper()
	return s.queryAt(partition, &event.Query{Query: &event.Query_Prices{Prices: &event.PricesQuery{Apply: book}}}).GetPriceList()
}

func appliedAt(t *testing.T, book *plan.Book, effective time.Time) *event.PriceBook {
	t.Helper()
	e, err := pricebook.Applied(book, effective.UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestEachPartitionTakesTheBooksOfTheFirst: also if the edge that applied a book, or withdrew it, came no further than the first
// partition. Restarted with other prices, the service keeps the applied ones.
func TestEachPartitionTakesTheBooksOfTheFirst(t *testing.T) {
	s := newStack(t)
	s.count = 3
	cfg := billing.Config{PartitionCount: s.count, Book: bookWith(100)}
	r := s.start(cfg, 0)
	later := appliedAt(t, bookWith(300), time.Now().Add(time.Hour))
	now := appliedAt(t, bookWith(200), time.Now())
	for range 2 { // the second time changes nothing
		s.applyAt(0, later)
		if list := s.applyAt(0, now); len(list.Books) != 2 || len(list.Upcoming) != 1 || list.Rules != account.NewestRules {
			t.Fatalf("books %v", list)
		}
	}
	has := func(books, upcoming, withdrawn int) func() bool {
		return func() bool {
			for p := range s.count {
				if l := s.books(p); len(l.Books) != books || len(l.Upcoming) != upcoming || len(l.Withdrawn) != withdrawn {
					return false
				}
			}
			return true
		}
	}
	eventually.True(t, "each partition has both books", has(2, 1, 0))
	s.applyAt(0, &event.PriceBook{Id: later.Id, Withdrawn: true})
	eventually.True(t, "each partition has withdrawn the later book", has(2, 0, 1))
	r.stop()
	cfg.Book = bookWith(500)
	s.start(cfg, 0)
	s.account(alice, plan.Pro)
	if limit := s.limitNow(); limit != 200 || !has(2, 0, 1)() {
		t.Errorf("limit %d, books %v", limit, s.books(0))
	}
}

// TestABookIsRefusedWhileInstancesDoNotKnowIt.
func TestABookIsRefusedWhileInstancesDoNotKnowIt(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{Rules: account.Rules3}, 0)
	payload, err := event.Encode(&event.Query{Query: &event.Query_Prices{Prices: &event.PricesQuery{Apply: appliedAt(t, bookWith(1), time.Now())}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rpc.Call(t.Context(), s.nc, event.QuerySubject(0), payload)
	var refusal *rpc.Error
	if !errors.As(err, &refusal) || refusal.Code != "book_refused" || len(s.books(0).Books) != 1 {
		t.Errorf("%v, books %v", err, s.books(0))
	}
}

// TestABookOfAMonthsEdgeUnderLoad: each request is charged by the book in force at its admission, and each month's statement has its own.
func TestABookOfAMonthsEdgeUnderLoad(t *testing.T) {
	s := newStack(t)
	sold := func(micros plan.Micros) *plan.Book {
		book := plan.Published(10)
		book.Plans[plan.Pro].Terms[plan.FilesUpload] = plan.Term{Price: micros, Overage: true}
		return book
	}
	now := time.Now()
	edge := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	s.start(billing.Config{Book: sold(1_000)}, edge.Add(-10*time.Second).Sub(now))
	s.account(alice, plan.Pro)
	s.grant(alice, 900_000_000)
	s.applyAt(0, appliedAt(t, sold(2_000), edge))
	charged := map[uint64]uint64{}
	for after := 0; after < 20; {
		var batch []*event.Admission
		for range 20 {
			batch = append(batch, admission(alice, plan.FilesUpload))
		}
		b := s.usage(batch, nil)
		want := uint64(1_000)
		if b.TimeMs >= edge.UnixMilli() {
			want = 2_000
			after++
		}
		for _, v := range b.Verdicts {
			if v.Decision != event.Decision_ADMITTED || v.CostMicros != want {
				t.Fatalf("%d ms after the month's edge: %v, want the price %d", b.TimeMs-edge.UnixMilli(), v, want)
			}
			charged[want]++
		}
		s.usage(nil, servedAll(batch))
	}
	if charged[1_000] == 0 {
		t.Fatal("no request came before the month's edge")
	}
	for price, month := range map[uint64]time.Time{1_000: edge.AddDate(0, -1, 0), 2_000: edge} {
		a := s.query(&event.Query{Account: alice, Query: &event.Query_Statement{Statement: &event.StatementQuery{Period: month.Format("2006-01")}}}).GetStatement()
		line := a.GetPeriods()[len(a.GetPeriods())-1].Lines[plan.FilesUpload-1]
		if line.PriceMicros != price || line.Paid != charged[price] || a.SpentMicros != price*charged[price] {
			t.Errorf("the statement of %s has %v, want %d requests at %d", a.Period, line, charged[price], price)
		}
	}
}
