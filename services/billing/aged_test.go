package billing_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/projection"
)

const (
	carol  = uint64(0xCA401)
	aMonth = 31 * 24 * time.Hour
)

// agingConfig ages all rows from before the previous month.
func agingConfig() billing.Config {
	return billing.Config{LedgerRetention: time.Hour, SnapshotMessages: 7, HistoryMessages: 10}
}

// rows counts an account's documents in a collection of the ledger.
func (s *stack) rows(collection string, id uint64) int {
	s.t.Helper()
	docs, err := s.views.List(s.t.Context(), collection, views.Query{
		Index: "by_account", Equal: []views.Value{views.String(event.AccountID(id).String())}, Limit: views.MaxList,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(docs)
}

// traffic charges, refunds and tops up accounts in several months, and returns the offset of the clock in the last one.
func (s *stack) traffic(random *rand.Rand, cfg billing.Config, ids []uint64) (offset time.Duration) {
	s.t.Helper()
	for month := range 4 {
		offset = time.Duration(month) * aMonth
		r := s.start(cfg, offset)
		for _, id := range ids {
			if month == 0 {
				s.account(id, plan.Pro)
			}
			s.grant(id, 10_000_000)
			s.serve(id, plan.FilesUpload, 100)
		}
		for range 6 + random.IntN(6) {
			id := ids[random.IntN(len(ids))]
			void := admission(id, plan.FilesUpload)
			s.usage([]*event.Admission{void}, nil)
			paid := s.serve(id, plan.FilesUpload, 1+random.IntN(9))
			s.grant(id, int64(1+random.IntN(1000)))
			s.usage(nil, []*event.Settlement{{RequestId: void.RequestId, Result: event.Result_VOID, Account: id, QuotaKey: uint32(plan.FilesUpload)}})
			if random.IntN(3) == 0 {
				s.command(&event.Command{Account: id, Action: &event.Command_Refund{Refund: &event.Refund{
					RequestId: paid[0].RequestId, AmountMicros: 1, Reason: "sorry", QuotaKey: uint32(plan.FilesUpload),
				}}})
			}
		}
		if random.IntN(2) == 0 {
			s.kill(r)
		} else {
			r.stop()
		}
	}
	return offset
}

// searches are all entries of some searches for an account, on pages of a size.
func (s *stack) searches(id uint64, page uint32, request []byte, middle int64) (all [][]*event.LedgerEntry) {
	s.t.Helper()
	for _, q := range []*event.LedgerQuery{
		{}, {Type: event.LedgerType_LEDGER_GRANT}, {RequestId: request}, {ToMs: middle}, {FromMs: middle}, {FromMs: middle - dayMillis, ToMs: middle + dayMillis},
	} {
		var list []*event.LedgerEntry
		for q.Limit = page; ; {
			a := s.query(&event.Query{Account: id, Query: &event.Query_Ledger{Ledger: q}})
			switch a.Status {
			case event.QueryStatus_QUERY_PENDING:
				continue
			case event.QueryStatus_QUERY_OK:
			default:
				s.t.Fatalf("ledger: %v", a.Status)
			}
			list = append(list, a.GetLedger().Entries...)
			if q.Cursor = a.GetLedger().NextCursor; len(q.Cursor) == 0 {
				break
			}
		}
		all = append(all, list)
	}
	return all
}

// TestALedgerIsTheSameOnceItIsAged, entry by entry and for each search: before, while and after rows are deleted, by replicas that are
// killed in between, and after rows are stored again. Audits match all the while.
func TestALedgerIsTheSameOnceItIsAged(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	s := newStack(t)
	var ahead atomic.Int64
	s.clock = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	ids := []uint64{alice, bob, carol}
	offset := s.traffic(random, billing.Config{SnapshotMessages: 7, HistoryMessages: 10}, ids)
	plain := s.start(billing.Config{}, offset)
	page := 1 + random.Uint32N(40)
	t.Log("pages of", page)
	want := map[uint64][][]*event.LedgerEntry{}
	requests, middles, stored := map[uint64][]byte{}, map[uint64]int64{}, map[uint64]int{}
	for _, id := range ids {
		all := s.ledger(id, 1000)
		at := all[random.IntN(len(all))]
		for _, e := range all[random.IntN(len(all)):] {
			if requests[id] == nil {
				requests[id] = e.RequestId
			}
		}
		middles[id], stored[id] = at.TimeMs, s.rows(projection.Ledger, id)
		want[id] = s.searches(id, page, requests[id], middles[id])
	}
	same := func(when string) {
		t.Helper()
		for _, id := range ids {
			for i, got := range s.searches(id, page, requests[id], middles[id]) {
				if !slices.EqualFunc(got, want[id][i], func(a, b *event.LedgerEntry) bool { return proto.Equal(a, b) }) {
					t.Fatalf("%s: search %d of %x has %d entries, before %d\n%v\nwant\n%v", when, i, id, len(got), len(want[id][i]), got, want[id][i])
				}
			}
		}
		for _, q := range []*event.AuditQuery{{}, {Deep: true}, {Account: ids[random.IntN(len(ids))]}} {
			if a := s.auditOf(0, q); !a.Match {
				t.Fatalf("%s: audit %v: %v", when, q, a)
			}
		}
	}
	same("stored")
	plain.stop()

	configs := []billing.Config{agingConfig(), agingConfig()}
	configs[0].Instance, configs[1].Instance = "a", "b"
	both := []*running{s.start(configs[0], offset), s.start(configs[1], offset)}
	for _, id := range ids {
		eventually.True(t, "old rows are aged", func() bool { return s.rows(projection.Aged, id) >= 2 })
		if n := s.rows(projection.Ledger, id); n != stored[id] {
			t.Fatalf("%d of %d rows are left right after they are aged", n, stored[id])
		}
	}
	same("aged")
	s.kill(both[0])
	both[1].stop()
	ahead.Store(int64(3 * time.Hour))
	both = []*running{s.start(configs[0], offset), s.start(configs[1], offset)}
	same("while rows are deleted")
	for _, id := range ids {
		aged := 0
		err := projection.EachAgedRow(t.Context(), s.views, event.AccountID(id), 0, func(projection.AgedRow) error { aged++; return nil })
		if err != nil || aged == 0 {
			t.Fatalf("%d rows are aged, %v", aged, err)
		}
		eventually.True(t, "aged rows are deleted", func() bool { return s.rows(projection.Ledger, id) == stored[id]-aged })
	}
	same("deleted")
	if err := billing.NewBooks(1).Write(t.Context(), billing.BookSource{Rows: s.views}, nil); !errors.Is(err, projection.ErrAged) {
		t.Fatalf("books without all rows: %v", err)
	}
	s.kill(both[1])
	ahead.Store(0)
	s.serve(alice, plan.FilesUpload, 1)
	both[0].stop()
	s.start(billing.Config{}, offset) // keeps all from now on
	if a := s.audit(); !a.Match {
		t.Fatalf("audit %v", a)
	}
	for _, id := range ids[1:] {
		all := s.searches(id, page, requests[id], middles[id])
		if len(all[0]) != len(want[id][0]) {
			t.Fatalf("%d entries of %d", len(all[0]), len(want[id][0]))
		}
	}
}

// TestTamperedAgedRowsAreFound by an audit, which names the table, and no page of the ledger shows something else.
func TestTamperedAgedRowsAreFound(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for name, c := range map[string]struct {
		change string
		shown  bool // newer entries are shown
	}{
		"a row is another one": {`UPDATE "doc.billing_ledger_aged" SET body = (SELECT body FROM "doc.billing_ledger_aged" ORDER BY id LIMIT 1 OFFSET 1) WHERE id = (SELECT min(id) FROM "doc.billing_ledger_aged")`, false},
		"moved":                {`UPDATE "doc.billing_ledger_aged" SET "k.position" = 'zzzzzzzzzzzzzzzzz' WHERE id = (SELECT max(id) FROM "doc.billing_ledger_aged")`, false},
		"no position":          {`UPDATE "doc.billing_ledger_aged" SET "k.position" = 'x' WHERE id = (SELECT max(id) FROM "doc.billing_ledger_aged")`, false},
		"deleted":              {`UPDATE "doc.billing_ledger_aged" SET gone = 1, "k.account" = NULL, "k.position" = NULL WHERE id = (SELECT min(id) FROM "doc.billing_ledger_aged")`, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(t)
			offset := s.traffic(random, billing.Config{}, []uint64{alice})
			r := s.start(agingConfig(), offset)
			eventually.True(t, "old rows are aged", func() bool { return s.rows(projection.Aged, alice) >= 2 })
			r.stop()
			s.exec(c.change)
			s.start(billing.Config{}, offset)
			a := s.audit()
			if a.Match || !slices.ContainsFunc(a.Differences, func(d *event.AuditDifference) bool { return d.Table == "agedLedger" || d.Table == "ledger" }) {
				t.Errorf("the audit finds %v", a)
			}
			if c.shown {
				return
			}
			q := &event.LedgerQuery{Limit: 1000}
			for {
				a := s.query(&event.Query{Account: alice, Query: &event.Query_Ledger{Ledger: q}})
				if a.Status == event.QueryStatus_QUERY_UNREADABLE {
					break
				}
				if q.Cursor = a.GetLedger().GetNextCursor(); a.Status == event.QueryStatus_QUERY_OK && len(q.Cursor) == 0 {
					t.Fatal("all pages were shown")
				}
			}
		})
	}
}

// TestAgedRowsAreRepairedAltogether: a repair of single ones is refused.
func TestAgedRowsAreRepairedAltogether(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	payload, err := event.Encode(&event.Query{Query: &event.Query_Audit{Audit: &event.AuditQuery{Repair: "agedLedger"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = rpc.Call(t.Context(), s.nc, event.QuerySubject(0), payload)
	var refused *rpc.Error
	if !errors.As(err, &refused) || refused.Code != "malformed" {
		t.Errorf("%v", err)
	}
}
