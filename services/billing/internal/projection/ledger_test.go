package projection

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
)

// withEntries is a projection of a ledger with one entry per minute. wanted names the reason of some.
func withEntries(t *testing.T, n int, reason func(i int) string) *Projection {
	t.Helper()
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	for i := range n {
		e := &event.LedgerEntry{
			Id: account.LedgerPosition(uint64(i*3 + 1)), Account: uint64(someone), AmountMicros: 1, TimeMs: int64(i) * 60_000, Reason: reason(i),
		}
		if err := p.Push(t.Context(), uint64(i*3+1), account.Effects{Ledger: []*event.LedgerEntry{e}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// found reads all pages of a search, and returns the numbers of pages and entries.
func found(t *testing.T, p *Projection, s Search, limit int) (pages int, times []int64) {
	t.Helper()
	for before := ""; ; {
		page, err := p.Page(t.Context(), someone, s, before, limit)
		if err != nil {
			t.Fatal(err)
		}
		if pages++; len(page.Entries) > limit {
			t.Fatalf("a page of %d", len(page.Entries))
		}
		for _, e := range page.Entries {
			times = append(times, e.TimeMs/60_000)
		}
		if page.Next == "" {
			return pages, times
		}
		before = page.Next
	}
}

// TestASearchLooksAtABoundedNumberOfEntries, and continues with the next page.
func TestASearchLooksAtABoundedNumberOfEntries(t *testing.T) {
	p := withEntries(t, maxScan+1500, func(i int) string {
		if i == 3 {
			return "The Needle"
		}
		return "hay"
	})
	pages, times := found(t, p, Search{Reason: "needle"}, 10)
	if pages != 2 || len(times) != 1 || times[0] != 3 {
		t.Fatalf("%d pages with %v", pages, times)
	}
	if pages, times := found(t, p, Search{}, 1000); pages != 12 || len(times) != maxScan+1500 {
		t.Fatalf("%d pages with %d entries", pages, len(times))
	}
	const first, last = 100, 110 // the newest are passed over
	pages, times = found(t, p, Search{FromMillis: first * 60_000, ToMillis: last * 60_000}, 100)
	if pages != 1 || len(times) != last-first || times[0] != last-1 || times[len(times)-1] != first {
		t.Fatalf("%d pages with %v", pages, times)
	}
	if _, times := found(t, p, Search{ToMillis: 60_000}, 100); len(times) != 1 || times[0] != 0 {
		t.Fatalf("the oldest: %v", times)
	}
	if _, times := found(t, p, Search{FromMillis: (maxScan + 1499) * 60_000}, 100); len(times) != 1 {
		t.Fatalf("the newest: %v", times)
	}
}

// TestAPageFitsIntoAMessage, also if all reasons are long.
func TestAPageFitsIntoAMessage(t *testing.T) {
	p := withEntries(t, 700, func(int) string { return strings.Repeat("\U0001F600", 500) })
	page, err := p.Page(t.Context(), someone, Search{}, "", 1000)
	if err != nil || len(page.Entries) == 0 || len(page.Entries) == 700 || page.Next == "" {
		t.Fatalf("%d entries, next %q: %v", len(page.Entries), page.Next, err)
	}
	if _, times := found(t, p, Search{}, 1000); len(times) != 700 {
		t.Fatalf("%d entries in all", len(times))
	}
}

// TestALedgerIsListedByAdmission: all entries are listed, in the order of admission and with the balances of that order, whatever
// rows hold them and wherever pages end. What is entered meanwhile changes no later page.
func TestALedgerIsListedByAdmission(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
		accounts := []event.AccountID{someone, someone + 1}
		balances, want := map[event.AccountID]int64{}, map[event.AccountID][]*event.LedgerEntry{}
		sequence := uint64(0)
		enter := func() {
			sequence++
			e := account.Effects{}
			for i := range rapid.SampledFrom([]int{0, 1, 5, 40, rowEntries + 1}).Draw(rt, "entries") {
				id := rapid.SampledFrom(accounts).Draw(rt, "account")
				amount := rapid.Int64Range(-balances[id]-50, 1000).Draw(rt, "amount")
				balances[id] += amount
				entry := &event.LedgerEntry{
					Id: account.LedgerPosition(sequence)[:11] + fmt.Sprintf("%06d", i), Account: uint64(id),
					TimeMs: rapid.Int64Range(0, 3).Draw(rt, "time"), Type: event.LedgerType(rapid.IntRange(1, 7).Draw(rt, "type")),
					QuotaKey: rapid.Uint32Range(0, 3).Draw(rt, "key"), AmountMicros: amount, BalanceMicros: balances[id],
					RequestId: rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(rt, "request"),
					Reason:    strings.Repeat("r", rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 3, rowBytes / 2}).Draw(rt, "reason")),
					Month:     rapid.Uint32Range(0, 2).Draw(rt, "month"),
					Actor:     rapid.SampledFrom([]string{"", "root"}).Draw(rt, "actor"),
					Payment:   rapid.SampledFrom([]string{"", "pi_1"}).Draw(rt, "payment"),
					SettledMs: rapid.Int64Range(1, 3).Draw(rt, "settled"),
				}
				if rapid.Bool().Draw(rt, "request") {
					entry.AdmittedBefore = rapid.Uint64Range(0, sequence-1).Draw(rt, "before")
					entry.AdmittedIndex = rapid.SampledFrom([]uint64{1, 2, 3, 1 << 32}).Draw(rt, "index")
				}
				e.Ledger = append(e.Ledger, entry)
				want[id] = append(want[id], entry)
			}
			if err := p.Push(t.Context(), sequence, e); err != nil {
				rt.Fatal(err)
			}
			if err := p.Flush(t.Context()); err != nil {
				rt.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 6).Draw(rt, "messages") {
			enter()
		}
		for _, id := range accounts {
			wanted := byAdmission(want[id])
			var got []*event.LedgerEntry
			for cursor := ""; ; {
				page, err := p.Page(t.Context(), id, Search{}, cursor, rapid.IntRange(1, 300).Draw(rt, "limit"))
				if err != nil {
					rt.Fatal(err)
				}
				got = append(got, page.Entries...)
				if cursor = page.Next; cursor == "" {
					break
				}
				if !ValidLedgerCursor(cursor) || ValidLedgerCursor(cursor[1:]) || ValidLedgerCursor(cursor[:len(cursor)-1]+"-") {
					rt.Fatalf("cursor %q", cursor)
				}
				if rapid.IntRange(0, 3).Draw(rt, "meanwhile") == 0 {
					enter()
				}
			}
			if len(got) != len(wanted) {
				rt.Fatalf("%d entries, want %d", len(got), len(wanted))
			}
			for i := range got {
				if !proto.Equal(got[i], wanted[i]) {
					rt.Fatalf("entry %d is %v, want %v", i, got[i], wanted[i])
				}
			}
		}
	})
}

// byAdmission is what a list of these entries has, newest first.
func byAdmission(entered []*event.LedgerEntry) []*event.LedgerEntry {
	list := make([]*event.LedgerEntry, 0, len(entered))
	for _, e := range entered {
		list = append(list, proto.CloneOf(e))
	}
	slices.SortFunc(list, func(a, b *event.LedgerEntry) int {
		return strings.Compare(account.LedgerOrder(a), account.LedgerOrder(b))
	})
	balance := int64(0)
	for _, e := range list {
		balance += e.AmountMicros
		e.BalanceMicros = balance
	}
	slices.Reverse(list)
	return list
}

// TestChargesOfAMessageAreOneRow of each account.
func TestChargesOfAMessageAreOneRow(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	e := effects(1, rowEntries)
	if err := p.Push(t.Context(), 1, e); err != nil {
		t.Fatal(err)
	}
	if n := p.Pending(); n != 1 {
		t.Fatalf("%d charges are %d rows", rowEntries, n)
	}
}
