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

// maxAgain bounds how often one page has rows recomputed.
const maxAgain = 4

// Again recomputes rows of an account's ledger from the journal: the rows of all messages after from, up to and including last, oldest
// first. It chooses from, which is less than last. The error is ErrMaking while they are being recomputed. It is safe for concurrent use.
type Again func(ctx context.Context, id event.AccountID, last uint64) (rows []MadeRow, from uint64, err error)

// MakeAgain sets the function that recomputes aged rows. Call it before the first Page.
func (p *Projection) MakeAgain(again Again) { p.again = again }

// MadeRow is a recomputed row of a ledger. The ids of its entries differ from the stored ones: they count the entries of all accounts in a
// message, which the fold of one account does not know.
type MadeRow struct {
	Sequence uint64
	Head     []byte
}

// MadeRows returns an account's rows among a message's effects.
func MadeRows(id event.AccountID, sequence uint64, effects account.Effects) (rows []MadeRow, err error) {
	puts, err := ledgerPuts(sequence, effects)
	for _, put := range puts {
		if owner, _ := put.Doc.Keys.Get("account").Any().(string); owner == id.String() {
			rows = append(rows, MadeRow{sequence, put.Doc.Head})
		}
	}
	return rows, err
}

// ErrMaking means that rows of the ledger are being recomputed, which takes more than a moment.
var ErrMaking = errors.New("ledger rows are being recomputed")

// ErrOtherRows: recomputed rows differ from the stored ones.
var ErrOtherRows = errors.New("ledger rows recomputed from the journal differ from the stored ones")

// agedEntries recomputes the entries of some aged rows before a position, newest first, and reports whether there are older ones. An empty
// position means the end.
func (p *Projection) agedEntries(ctx context.Context, id event.AccountID, before string) (entries []*event.LedgerEntry, more bool, err error) {
	kept, first, err := p.agedBefore(ctx, id, before)
	if err != nil || len(kept) == 0 {
		return nil, false, err
	}
	last := kept[len(kept)-1].Sequence
	made, from, err := p.again(ctx, id, last)
	if err != nil {
		return nil, false, err
	}
	n := 0
	for n < len(kept) && kept[n].Sequence <= from {
		n++
	}
	more, kept = n > 0 || !first, kept[n:]
	if len(kept) == 0 {
		return nil, false, fmt.Errorf("%w: none of message %d of account %s", ErrOtherRows, last, id)
	}
	made = slices.DeleteFunc(slices.Clone(made), func(r MadeRow) bool { return r.Sequence < kept[0].Sequence || r.Sequence > last })
	if len(made) < len(kept) {
		return nil, false, fmt.Errorf("%w: %d instead of %d by messages up to %d of account %s", ErrOtherRows, len(made), len(kept), last, id)
	}
	for i := len(kept) - 1; i >= 0; i-- {
		row, err := kept[i].row(made[i])
		if err != nil {
			return nil, false, fmt.Errorf("account %s: %w", id, err)
		}
		entries = appendRow(entries, row, before, len(entries)+1+len(row.Later))
	}
	return entries, more, nil
}

// row returns a recomputed row with the ids of its entries, if it is the one that was stored.
func (r *AgedRow) row(made MadeRow) (*event.LedgerEntry, error) {
	row, hash, err := decodeRow(made.Head)
	if err != nil {
		return nil, err
	}
	if made.Sequence != r.Sequence || hash != r.Hash || len(row.Later)+1 != len(r.Ordinals) {
		return nil, fmt.Errorf("%w: the row of message %d", ErrOtherRows, r.Sequence)
	}
	row.Id = r.ID()
	for i, e := range row.Later {
		e.Id = account.LedgerID(r.Sequence, r.Ordinals[i+1])
	}
	return row, nil
}

// agedBefore returns what is kept of the aged rows before a position in up to two blocks, oldest first, and whether they include the
// account's first. An empty position means the end.
func (p *Projection) agedBefore(ctx context.Context, id event.AccountID, before string) (rows []AgedRow, first bool, err error) {
	older := views.Query{Index: byAccount, Equal: []views.Value{views.String(id.String())}, Desc: true, Limit: 2}
	var heads []views.Doc
	if before != "" {
		older.After = []views.Value{views.String(before)}
		around := views.Query{Index: byAccount, Equal: older.Equal, After: older.After, Limit: 1}
		if heads, err = p.store.List(ctx, Aged, around); err != nil {
			return nil, false, fmt.Errorf("list %s: %w", Aged, err)
		}
	}
	docs, err := p.store.List(ctx, Aged, older)
	if err != nil {
		return nil, false, fmt.Errorf("list %s: %w", Aged, err)
	}
	first = len(docs) < 2
	if len(docs) > 0 {
		heads = append(heads, docs[0])
	}
	slices.Reverse(heads)
	for _, head := range heads {
		blocks, err := p.store.Load(ctx, Aged, []string{head.ID}, views.Full)
		if err != nil {
			return nil, false, fmt.Errorf("load %s: %w", Aged, err)
		}
		if len(blocks) == 0 {
			return nil, false, fmt.Errorf("block %s: %w", head.ID, ErrAgedBlock)
		}
		list, err := decodeAged(blocks[0])
		if err != nil {
			return nil, false, err
		}
		for _, r := range list {
			if at := r.ID(); (before == "" || at < before) && (len(rows) == 0 || at > rows[len(rows)-1].ID()) {
				rows = append(rows, r)
			}
		}
	}
	return rows, first, nil
}

// agedAt returns the position at which to begin paging back through an account's aged rows for those settled before a time: the end of the
// newest block whose first row was. A block has rows of one month.
func (p *Projection) agedAt(ctx context.Context, id event.AccountID, millis int64) (string, error) {
	query := views.Query{Equal: []views.Value{views.String(id.String())}, Desc: true}
	at := account.LedgerPosition(0)
	err := views.Each(ctx, p.store, Aged, ledgerIndex(), query, func(doc views.Doc) error {
		if timesOf(doc).first >= millis {
			return nil
		}
		at = account.LedgerPosition(account.LedgerSequence(positionOf(doc)) + 1)
		return views.ErrStop
	})
	return at, err
}
