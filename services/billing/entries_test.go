package billing_test

import (
	"math/rand/v2"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
)

// entries reads a page of an account's chain.
func (s *stack) entries(id uint64, q *event.EntriesQuery) *event.EntriesAnswer {
	s.t.Helper()
	a := s.query(&event.Query{Account: id, Query: &event.Query_Entries{Entries: q}})
	if a.Status != event.QueryStatus_QUERY_OK {
		s.t.Fatalf("entries: %v", a)
	}
	return a.GetEntries()
}

// chain reads the whole chain of an account in pages of a size, and checks its hashes.
func (s *stack) chain(id uint64, limit uint32) (list []event.Entry) {
	s.t.Helper()
	after, hash := uint64(0), event.FirstEntryHash(event.AccountID(id))
	for {
		page := s.entries(id, &event.EntriesQuery{After: &after, Limit: limit})
		if string(page.AfterHash) != string(hash[:]) || len(page.Entries) > int(limit)*event.EntryBytes || page.Kept != 1 {
			s.t.Fatalf("after %d: %v", after, page)
		}
		for rest := page.Entries; len(rest) > 0; rest = rest[event.EntryBytes:] {
			data := (*[event.EntryBytes]byte)(rest)
			list, hash = append(list, event.DecodeEntry(data)), event.LinkEntry(hash, data)
			after++
		}
		if after == page.Newest {
			if string(page.NewestHash) != string(hash[:]) {
				s.t.Fatalf("the newest receipt is %d.%x, the entries lead to %x", page.Newest, page.NewestHash, hash)
			}
			return list
		}
	}
}

// TestEntriesOutliveAKill: each chain is complete, and leads to the newest receipt.
func TestEntriesOutliveAKill(t *testing.T) {
	s := newStack(t)
	cfg := billing.Config{SnapshotMessages: 3}
	r := s.start(cfg, 0)
	s.account(alice, plan.Pro)
	s.grant(alice, 1_000_000)
	want := 2 // the beginning, and the grant
	for range 4 {
		for range 5 {
			s.serve(alice, plan.FilesUpload, 6)
			want += 6
		}
		s.kill(r)
		r = s.start(cfg, 0)
		limit := 1 + rand.Uint32N(20)
		t.Log("pages of", limit)
		list, charges := s.chain(alice, limit), 0
		for _, e := range list {
			if e.Kind == event.EntryLedger && event.LedgerType(e.Charge) == event.LedgerType_LEDGER_CHARGE {
				charges++
			}
		}
		if len(list)-charges != want || list[0].Kind != event.EntryBegins {
			t.Fatalf("%d entries, %d of them charges, want %d others", len(list), charges, want)
		}
	}
}

// TestPagesOfEntriesHaveBounds: both sides of the limit, of the chain's end, and of what is kept.
func TestPagesOfEntriesHaveBounds(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	if a := s.query(&event.Query{Account: alice, Query: &event.Query_Entries{Entries: &event.EntriesQuery{}}}); a.Status != event.QueryStatus_QUERY_NOT_FOUND {
		t.Errorf("of an unknown account: %v", a)
	}
	s.account(alice, plan.Pro)
	if page := s.entries(alice, &event.EntriesQuery{}); page.Newest != 0 || page.Kept != 0 || len(page.NewestHash)+len(page.Entries) != 0 {
		t.Errorf("before the first entry: %v", page)
	}
	s.serve(alice, plan.PastesGet, 1010)
	newest := uint64(1011)
	for _, c := range []struct {
		after *uint64
		limit uint32
		first uint64 // 0: none
		n     int
	}{
		{nil, 0, 1, 100},
		{nil, 1, 1, 1},
		{nil, 1000, 1, 1000},
		{nil, 1001, 1, 1000},
		{new(uint64(0)), 10, 1, 10},
		{new(uint64(10)), 1000, 11, 1000},
		{new(newest - 1), 10, newest, 1},
		{new(newest), 10, 0, 0},
		{new(newest + 1), 10, 0, 0},
	} {
		page := s.entries(alice, &event.EntriesQuery{After: c.after, Limit: c.limit})
		if page.Newest != newest || page.Kept != 1 || len(page.Entries) != c.n*event.EntryBytes || c.first > 0 && page.After != c.first-1 {
			t.Errorf("%v: %d entries after %d, newest %d", c, len(page.Entries)/event.EntryBytes, page.After, page.Newest)
		}
		if known := page.After <= newest; known != (len(page.AfterHash) > 0) {
			t.Errorf("%v: the hash is %x", c, page.AfterHash)
		}
	}
}

// TestEntriesThatAreNoLongerKept: the page begins with the first that is, and one before has no entries and no hash. An account without
// newer entries has none, and the newest receipt all the same.
func TestEntriesThatAreNoLongerKept(t *testing.T) {
	s, cfg := books(t)
	s.start(cfg, later)
	ask := func(id uint64, after *uint64) *event.EntriesAnswer {
		t.Helper()
		return s.queryAt(0, &event.Query{Account: id, Query: &event.Query_Entries{Entries: &event.EntriesQuery{After: after}}}).GetEntries()
	}
	var page *event.EntriesAnswer
	eventually.True(t, "the entries of the first months are deleted", func() bool {
		page = ask(alice, nil)
		if page.After != page.Kept-1 || uint64(len(page.Entries)/event.EntryBytes) != page.Newest-page.After || len(page.AfterHash) == 0 {
			t.Fatalf("while they are: %v", page)
		}
		return page.Kept > 1
	})
	kept, newest := page.Kept, page.Newest
	if page = ask(alice, new(kept-1)); len(page.AfterHash) == 0 || uint64(len(page.Entries)/event.EntryBytes) != newest-kept+1 {
		t.Errorf("right before the first that is kept: %v", page)
	}
	if page = ask(alice, new(kept-2)); len(page.AfterHash)+len(page.Entries) != 0 || page.Kept != kept {
		t.Errorf("one earlier: %v", page)
	}
	s.exec(`DELETE FROM "doc.billing_entries"`)
	if page = ask(alice, nil); page.Kept != 0 || page.After != newest || string(page.AfterHash) != string(page.NewestHash) || len(page.AfterHash) == 0 {
		t.Errorf("without any: %v", page)
	}
	if page = ask(alice, new(newest-1)); page.Kept != 0 || len(page.AfterHash)+len(page.Entries) != 0 {
		t.Errorf("without any, after the last but one: %v", page)
	}
}
