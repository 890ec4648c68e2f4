package billing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/bookjson"
	"quire.dev/services/billing/internal/partition"
	"quire.dev/services/billing/internal/projection"
)

// Books are what billing shows of the accounts of some partitions, each as of the last message added. Not safe for concurrent use.
type Books struct {
	partitions int // of the installation
	parts      map[int]*bookPart
}

// bookPart is a partition.
type bookPart struct {
	kinds map[string]account.Kind
	fold  *account.Fold
	last  uint64 // message that the journal is known to have
}

// NewBooks returns the books of no partition.
func NewBooks(partitions int) *Books {
	return &Books{partitions: partitions, parts: map[int]*bookPart{}}
}

// Begin adds a partition without messages.
func (b *Books) Begin(number int) {
	b.parts[number] = &bookPart{kinds: partition.KindsOf(number), fold: account.New()}
}

// Add folds the next message of a partition.
func (b *Books) Add(number int, m journal.Message) error {
	p := b.parts[number]
	if _, err := p.fold.Apply(partition.MessageOf(m, p.kinds)); err != nil && !errors.Is(err, account.ErrUndecodable) {
		return err
	}
	p.last = m.Sequence
	return nil
}

// Accounts is the number of accounts.
func (b *Books) Accounts() (n int) {
	for _, p := range b.parts {
		n += p.fold.Accounts()
	}
	return n
}

// BookSource is where books are read from.
type BookSource struct {
	// Rows are the rows of the read model, which must have the messages added.
	Rows projection.Rows
	// Last returns the last message of a partition's journal.
	Last func(ctx context.Context, partition int) (uint64, error)
}

// BookLine is a line of docs/journal.md, Exports, and its partition.
type BookLine struct {
	Partition int
	Line      any  // as JSON
	Ends      bool // it is the last one of an account that the journal has
}

// Write calls put with each line, within a partition in the order of the document. It omits entries and closed months of messages after
// the added ones, but not entries and closed months that no message of the journal has. It fails if the read model lacks old ledger rows.
func (b *Books) Write(ctx context.Context, from BookSource, put func(BookLine) error) error {
	w := &bookWriter{Books: b, from: from, put: put, statements: map[event.AccountID][]views.Doc{}}
	for _, p := range b.parts {
		w.ids = append(w.ids, p.fold.AccountIDs()...)
	}
	slices.Sort(w.ids)
	if err := projection.AllStored(ctx, from.Rows); err != nil {
		return fmt.Errorf("books have what the read model shows: %w. To store them again, set it to 0, stop billing and use `quire repair read-model`", err)
	}
	if err := projection.EachOwnedRow(ctx, from.Rows, func(id event.AccountID, row views.Doc) error { return w.ledger(ctx, id, row) }); err != nil {
		return err
	}
	return w.finish(ctx, 0)
}

// bookWriter is a call of Write.
type bookWriter struct {
	*Books
	from       BookSource
	put        func(BookLine) error
	ids        []event.AccountID // whose closed months and states are not written yet
	statements map[event.AccountID][]views.Doc
}

// ledger writes the entries of a row of an account's ledger, and first what is left of the accounts before it.
func (w *bookWriter) ledger(ctx context.Context, id event.AccountID, row views.Doc) error {
	number := event.AccountPartition(id, w.partitions)
	if w.parts[number] == nil {
		return nil
	}
	if err := w.finish(ctx, id); err != nil {
		return err
	}
	later, err := w.isLater(ctx, number, row)
	if err != nil || later {
		return err
	}
	entries, err := projection.LedgerEntries(row.Head)
	if err != nil {
		return fmt.Errorf("row %s of the ledger can't be read, `quire audit` says what is wrong with it: %w", row.ID, err)
	}
	for _, e := range entries {
		data, err := bookjson.Message(e)
		if err != nil {
			return fmt.Errorf("row %s of the ledger: %w", row.ID, err)
		}
		if err := w.put(BookLine{Partition: number, Line: bookjson.Line{Ledger: data}}); err != nil {
			return err
		}
	}
	return nil
}

// isLater reports whether a message after those added has made a row. One that no message can have made is shown to people now.
func (w *bookWriter) isLater(ctx context.Context, number int, row views.Doc) (bool, error) {
	p := w.parts[number]
	if row.Seq <= p.fold.Sequence() {
		return false, nil
	}
	if row.Seq > p.last {
		last, err := w.from.Last(ctx, number)
		if err != nil {
			return false, err
		}
		p.last = max(p.last, last)
	}
	return row.Seq <= p.last, nil
}

// finish writes the closed months and the states of the accounts before one; 0: of all.
func (w *bookWriter) finish(ctx context.Context, before event.AccountID) error {
	for len(w.ids) > 0 && (before == 0 || w.ids[0] < before) {
		id := w.ids[0]
		if _, loaded := w.statements[id]; !loaded {
			if err := w.load(ctx); err != nil {
				return err
			}
		}
		if err := w.account(ctx, id); err != nil {
			return fmt.Errorf("account %s: %w", id, err)
		}
		delete(w.statements, id)
		w.ids = w.ids[1:]
	}
	return nil
}

func (w *bookWriter) account(ctx context.Context, id event.AccountID) error {
	number := event.AccountPartition(id, w.partitions)
	for _, row := range w.statements[id] {
		later, err := w.isLater(ctx, number, row)
		if err != nil {
			return err
		}
		if later {
			continue
		}
		s := &event.StatementAnswer{}
		if err := event.Decode(row.Head, s); err != nil {
			return fmt.Errorf("statement %s can't be read, `quire audit` says what is wrong with it: %w", row.ID, err)
		}
		closed, err := bookjson.NewClosed(id, s)
		if err != nil {
			return err
		}
		if err := w.put(BookLine{Partition: number, Line: bookjson.Line{Closed: closed}}); err != nil {
			return err
		}
	}
	state, err := bookjson.NewAccount(w.parts[number].fold.Shown(id))
	if err != nil {
		return err
	}
	return w.put(BookLine{Partition: number, Line: bookjson.Line{Account: state}, Ends: true})
}

// statementIDs is about how many statements are loaded at a time.
const statementIDs = 1000

// load reads the closed months of the next accounts.
func (w *bookWriter) load(ctx context.Context) error {
	var wanted []string
	for _, id := range w.ids {
		if len(wanted) >= statementIDs {
			break
		}
		w.statements[id] = nil
		u := w.parts[event.AccountPartition(id, w.partitions)].fold.UsageAt(id, 0)
		for month := firstOfMonth(u.CreatedMs); month.UnixMilli() <= u.PeriodStartMs; month = month.AddDate(0, 1, 0) {
			wanted = append(wanted, projection.StatementID(id, month.Format("2006-01")))
		}
	}
	for some := range slices.Chunk(wanted, views.MaxLoad) {
		rows, err := w.from.Rows.Load(ctx, projection.Statements, some, views.Heads)
		if err != nil {
			return fmt.Errorf("load statements: %w", err)
		}
		for _, row := range rows {
			owner, _, _ := strings.Cut(row.ID, ".")
			id, err := event.ParseAccountID(owner)
			if err != nil {
				return err
			}
			w.statements[id] = append(w.statements[id], row)
		}
	}
	for _, rows := range w.statements {
		slices.SortFunc(rows, func(a, b views.Doc) int { return strings.Compare(a.ID, b.ID) })
	}
	return nil
}

func firstOfMonth(millis int64) time.Time {
	t := time.UnixMilli(millis).UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
