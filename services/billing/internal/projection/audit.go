package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// The documents of the read model, for an audit that makes them again.

// Documents returns the documents that a message's effects add, except for the days. They are those that Push queues.
func Documents(stream string, sequence uint64, effects account.Effects) ([]views.Put, error) {
	return documents(stream, sequence, effects)
}

// DayID is the id of the document of an account's day.
func DayID(id event.AccountID, day uint32) string { return dayOf{id, day}.id() }

// DayDoc is the document of an account's day.
func DayDoc(stream string, id event.AccountID, day *event.UsageDay, sequence uint64) (views.Doc, error) {
	head, err := event.Encode(day)
	return views.Doc{
		ID: DayID(id, day.Day), Seq: sequence, Head: head,
		Keys: views.Keys{{Name: "stream", Value: views.String(stream)}, {Name: "day", Value: views.Int(int64(day.Day))}},
	}, err
}

// AddDelta adds a change to a day.
func AddDelta(day *event.UsageDay, d account.UsageDelta) { addTo(day, usageItem{UsageDelta: d}) }

// HasForm reports whether a day has its usage as AddDelta leaves it: in order, each key once, and none without usage.
func HasForm(day *event.UsageDay) bool {
	for i, u := range day.Usage {
		if u.Used == 0 && u.Overage == 0 && u.SpentMicros == 0 || i > 0 && compareUsage(day.Usage[i-1], u) >= 0 {
			return false
		}
	}
	return true
}

// StatementID is the id of a closed month's document.
func StatementID(id event.AccountID, period string) string { return id.String() + "." + period }

// LedgerEntries returns the entries of a row of the ledger, oldest first.
func LedgerEntries(head []byte) ([]*event.LedgerEntry, error) {
	row := &event.LedgerEntry{}
	if err := event.Decode(head, row); err != nil {
		return nil, err
	}
	return takeApart(row), nil
}

// takeApart returns the entries of a decoded row, oldest first. The row is one of them afterwards.
func takeApart(row *event.LedgerEntry) []*event.LedgerEntry {
	entries := appendRow(nil, row, "", len(row.Later)+1)
	slices.Reverse(entries)
	return entries
}

// EachLedgerRow calls do with the stored rows of an account's ledger, oldest first. With from, it leaves out those whose position is
// before that message.
func EachLedgerRow(ctx context.Context, store views.Store, id event.AccountID, from uint64, do func(views.Doc) error) error {
	query := views.Query{Equal: []views.Value{views.String(id.String())}}
	if from > 0 {
		query.After = []views.Value{views.String(account.LedgerPosition(from))}
	}
	return views.Each(ctx, store, Ledger, ledgerIndex(), query, do)
}

// Rows reads the rows of the read model: a store, or one as of a moment.
type Rows interface {
	Load(ctx context.Context, collection string, ids []string, parts views.Parts) ([]views.Doc, error)
	List(ctx context.Context, collection string, q views.Query) ([]views.Doc, error)
}

// EachOwnedRow calls do with every row that some ledger shows and the ledger's owner, by owner and then oldest first.
func EachOwnedRow(ctx context.Context, rows Rows, do func(event.AccountID, views.Doc) error) error {
	return views.Each(ctx, rows, Ledger, ledgerIndex(), views.Query{}, func(doc views.Doc) error {
		key, _ := doc.Keys.Get("account").Any().(string)
		owner, err := event.ParseAccountID(key)
		if err != nil {
			return nil // no ledger is listed by such a key
		}
		return do(owner, doc)
	})
}

// ErrAged means that a ledger has rows that the read model no longer stores.
var ErrAged = errors.New("QUIRE_LEDGER_RETENTION has removed old rows of ledgers from the read model")

// AllStored returns ErrAged unless the read model has all rows of all ledgers.
func AllStored(ctx context.Context, rows Rows) error {
	docs, err := rows.List(ctx, Aged, views.Query{Index: byAccount, Limit: 1})
	if err != nil {
		return fmt.Errorf("list %s: %w", Aged, err)
	}
	if len(docs) > 0 {
		return ErrAged
	}
	return nil
}

// EachDay calls do with the stored days of a stream from a day on, in order.
func EachDay(ctx context.Context, store views.Store, stream string, from uint32, do func(views.Doc) error) error {
	index := views.Index{Name: byStreamDay, Keys: []string{"stream", "day"}}
	query := views.Query{Equal: []views.Value{views.String(stream)}, After: []views.Value{views.Int(int64(from) - 1)}, AfterID: "~"}
	return views.Each(ctx, store, Days, index, query, do)
}

// EachAdminEntry calls do with every stored entry of a stream's part of the admin log, oldest first.
func EachAdminEntry(ctx context.Context, store views.Store, stream string, do func(views.Doc) error) error {
	index := views.Index{Name: byStream, Keys: []string{"stream", "position"}}
	return views.Each(ctx, store, AdminLog, index, views.Query{Equal: []views.Value{views.String(stream)}}, do)
}

// ErrChanged means that a row has changed since it was compared.
var ErrChanged = errors.New("a row of the read model has changed since it was compared; repeat the repair")

// Repair commits a batch without a checkpoint while nothing is projected. before are the rows as they were compared: if one has
// changed since, it returns ErrChanged and changes nothing.
func (p *Projection) Repair(ctx context.Context, collection string, before []views.Doc, b views.Batch) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	sequences := map[string]uint64{}
	var ids []string
	for _, doc := range before {
		sequences[doc.ID] = doc.Seq
		ids = append(ids, doc.ID)
	}
	docs, err := p.store.Load(ctx, collection, ids, views.Heads)
	if err != nil {
		return fmt.Errorf("load %s: %w", collection, err)
	}
	for _, doc := range docs {
		if doc.Seq != sequences[doc.ID] {
			return ErrChanged
		}
	}
	return p.store.Commit(ctx, b)
}
