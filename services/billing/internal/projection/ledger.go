package projection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

const (
	scanPage = views.MaxList // entries read at a time by a search
	maxScan  = 10_000        // entries scanned for one page of a search
	// pageBytes bounds a page with long reasons: an answer must fit into a NATS message of 1 MB.
	pageBytes = 512 << 10
	// aheadMillis is how far a clock that was ahead, and came back, may have put the times of entries out of order.
	aheadMillis = dayMillis

	fewRows    = 16  // read first: each may hold many entries
	rowEntries = 256 // maximum per row
	rowBytes   = 32 << 10
)

// Search is a filter of ledger entries. Zero fields match all.
type Search struct {
	Type       event.LedgerType
	QuotaKey   uint32
	FromMillis int64 // inclusive
	ToMillis   int64 // exclusive
	Request    []byte
	Reason     string // a part of the reason, ignoring case
}

func (s *Search) all() bool {
	return s.Type == 0 && s.QuotaKey == 0 && s.FromMillis == 0 && s.ToMillis == 0 && len(s.Request) == 0 && s.Reason == ""
}

// since is a time in Unix milliseconds before which no entry matches; 0: none is known. A request's id begins with its time.
func (s *Search) since() int64 {
	if s.FromMillis != 0 || len(s.Request) != len(event.RequestID{}) {
		return s.FromMillis
	}
	return event.RequestID(s.Request).UnixMilli()
}

func (s *Search) takes(e *event.LedgerEntry) bool {
	return (s.Type == 0 || e.Type == s.Type) && (s.QuotaKey == 0 || e.QuotaKey == s.QuotaKey) &&
		(s.FromMillis == 0 || e.TimeMs >= s.FromMillis) && (s.ToMillis == 0 || e.TimeMs < s.ToMillis) &&
		(len(s.Request) == 0 || bytes.Equal(e.RequestId, s.Request)) &&
		(s.Reason == "" || strings.Contains(strings.ToLower(e.Reason), strings.ToLower(s.Reason)))
}

// LedgerPage is a page of a ledger, newest entry first.
type LedgerPage struct {
	Entries []*event.LedgerEntry
	Next    string // cursor of the next page; empty: the end
}

// Page reads a page of an account's ledger that matches a search. cursor is LedgerPage.Next of the previous page, empty for the
// first; it must be valid. A page scans a bounded number of entries, and ends before rows that have to be recomputed once it has any, so
// it may have fewer than limit entries although more match. Entries created during paging are in none of the later pages. Its errors
// include Again's.
func (p *Projection) Page(ctx context.Context, id event.AccountID, search Search, cursor string, limit int) (page LedgerPage, err error) {
	l := listing{p: p, id: id, pageSize: scanPage}
	if search.all() {
		l.pageSize = min(limit+fewRows, scanPage)
	}
	if err := l.start(ctx, search, cursor); err != nil {
		return page, err
	}
	size := 0
	for scanned := 0; ; scanned++ {
		e, err := l.peek(ctx, len(page.Entries) > 0)
		if errors.Is(err, errPageEnds) {
			page.Next = l.cursor()
			return page, nil
		}
		if err != nil || e == nil || search.FromMillis != 0 && e.TimeMs < search.FromMillis-aheadMillis {
			return page, err
		}
		takes := search.takes(e)
		if takes {
			size += e.SizeVT()
		}
		if scanned == maxScan || takes && (len(page.Entries) == limit || len(page.Entries) > 0 && size > pageBytes) {
			page.Next = l.cursor()
			return page, nil
		}
		if takes {
			page.Entries = append(page.Entries, e)
		}
		l.take()
	}
}

// ledgerPuts builds the rows of a message's entries: one per account, unless they are too many. A row has the id of its first
// entry, and depends only on the message, so that every replica writes the same rows.
func ledgerPuts(sequence uint64, effects account.Effects) ([]views.Put, error) {
	var rows []*ledgerRow
	last := map[uint64]*ledgerRow{} // by account
	for _, e := range effects.Ledger {
		if row := last[e.Account]; row != nil && row.takes(e) {
			row.add(e)
			continue
		}
		row := newLedgerRow(e)
		rows, last[e.Account] = append(rows, row), row
	}
	puts := make([]views.Put, 0, len(rows))
	for _, row := range rows {
		head, err := event.Encode(&row.LedgerEntry)
		if err != nil {
			return nil, err
		}
		owner := event.AccountID(row.Account).String()
		puts = append(puts, views.Put{Collection: Ledger, Doc: views.Doc{
			ID: owner + "." + row.Id, Seq: sequence, Head: head,
			Keys: views.Keys{{Name: "account", Value: views.String(owner)}, {Name: "position", Value: views.String(row.Id)}},
		}})
	}
	return puts, nil
}

// ledgerRow is a row under construction: its first entry, with the others in Later.
type ledgerRow struct {
	event.LedgerEntry
	bytes int // encoded size of the entries
}

func newLedgerRow(first *event.LedgerEntry) *ledgerRow {
	row := &ledgerRow{bytes: first.SizeVT()}
	row.Id, row.Account, row.TimeMs, row.Type, row.QuotaKey = first.Id, first.Account, first.TimeMs, first.Type, first.QuotaKey
	row.AmountMicros, row.BalanceMicros, row.RequestId, row.Reason = first.AmountMicros, first.BalanceMicros, first.RequestId, first.Reason
	row.Month, row.Actor, row.Payment = first.Month, first.Actor, first.Payment
	row.SettledMs, row.AdmittedBefore, row.AdmittedIndex = first.SettledMs, first.AdmittedBefore, first.AdmittedIndex
	return row
}

// takes reports whether the row has room for a later entry. A time of 0 means the first entry's.
func (r *ledgerRow) takes(e *event.LedgerEntry) bool {
	return len(r.Later)+1 < rowEntries && r.bytes+e.SizeVT() <= rowBytes && (e.TimeMs != 0 || r.TimeMs == 0)
}

func (r *ledgerRow) add(e *event.LedgerEntry) {
	same := 0
	for same < len(e.Id) && same < len(r.Id) && e.Id[same] == r.Id[same] {
		same++
	}
	later := &event.LedgerEntry{
		Id: e.Id[same:], TimeMs: e.TimeMs, Type: e.Type, QuotaKey: e.QuotaKey, AmountMicros: e.AmountMicros,
		RequestId: e.RequestId, Reason: e.Reason, Month: e.Month, Actor: e.Actor, Payment: e.Payment,
		SettledMs: e.SettledMs, AdmittedBefore: e.AdmittedBefore, AdmittedIndex: e.AdmittedIndex,
	}
	if e.TimeMs == r.TimeMs {
		later.TimeMs = 0
	}
	if e.SettledMs == r.SettledMs {
		later.SettledMs = 0
	}
	r.Later = append(r.Later, later)
	r.bytes += e.SizeVT()
}

// appendRow appends a row's entries older than before, newest first, until there are most. An empty before matches all.
func appendRow(entries []*event.LedgerEntry, row *event.LedgerEntry, before string, most int) []*event.LedgerEntry {
	later, balance := row.Later, row.BalanceMicros
	for _, e := range later {
		balance += e.AmountMicros
		e.Id, e.Account, e.BalanceMicros = row.Id[:max(0, len(row.Id)-len(e.Id))]+e.Id, row.Account, balance
		if e.TimeMs == 0 {
			e.TimeMs = row.TimeMs
		}
		if e.SettledMs == 0 {
			e.SettledMs = row.SettledMs
		}
	}
	row.Later = nil
	for i := len(later) - 1; i >= -1 && len(entries) < most; i-- {
		e := row
		if i >= 0 {
			e = later[i]
		}
		if before == "" || e.Id < before {
			entries = append(entries, e)
		}
	}
	return entries
}

// ledgerIndex has the rows of each ledger in order.
func ledgerIndex() views.Index {
	return views.Index{Name: byAccount, Keys: []string{"account", "position"}}
}

// span are positions in an account's ledger: those before one, and after another. Empty ones don't count.
type span struct{ after, before string }

// entries reads the newest n stored entries of a span in the order of settlement, newest first, of rows after the span's first position.
// Fewer mean that there are no more.
func (p *Projection) entries(ctx context.Context, id event.AccountID, s span, n int) ([]*event.LedgerEntry, error) {
	var entries []*event.LedgerEntry
	before := s.before
	for rows := min(n, fewRows); len(entries) < n; rows = min(2*rows, n) {
		query := views.Query{Index: byAccount, Equal: []views.Value{views.String(id.String())}, Desc: true, Limit: rows}
		if before != "" {
			query.After = []views.Value{views.String(before)}
		}
		docs, err := p.store.List(ctx, Ledger, query)
		if err != nil {
			return nil, fmt.Errorf("list ledger: %w", err)
		}
		for _, d := range docs {
			row := &event.LedgerEntry{}
			if err := event.Decode(d.Head, row); err != nil {
				return nil, err
			}
			if row.Id <= s.after {
				return entries, nil
			}
			entries = appendRow(entries, row, before, n)
			before = row.Id
		}
		if len(docs) < rows {
			break
		}
	}
	return entries, nil
}

// ledgerAt is a position before which the stored entries up to a time begin; empty: the newest. Entries are in journal order, and so
// nearly in order of time: aheadMillis covers clocks that came back, and entries about requests admitted minutes before. It
// bisects the journal's sequences.
func (p *Projection) ledgerAt(ctx context.Context, id event.AccountID, after string, millis int64) (string, error) {
	newest, err := p.entries(ctx, id, span{after: after}, 1)
	if err != nil || len(newest) == 0 || newest[0].TimeMs < millis {
		return "", err
	}
	low, high := uint64(0), account.LedgerSequence(newest[0].Id)+1 // entries before low are older than millis, those before high may not be
	for low+1 < high {
		middle := low + (high-low)/2
		entries, err := p.entries(ctx, id, span{after, account.LedgerPosition(middle)}, 1)
		if err != nil {
			return "", err
		}
		if len(entries) > 0 && entries[0].TimeMs >= millis {
			high = min(middle, account.LedgerSequence(entries[0].Id)+1)
		} else {
			low = middle
		}
	}
	return account.LedgerPosition(high), nil
}
