package projection

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// Rows of the ledger past their retention are aged: the read model deletes them, and keeps in blocks which entries they had and a hash of
// each. Page makes them again from the journal. Blocks cover an account's rows from the first one on, without gaps: rows up to the newest
// block's position are aged, whether they are deleted yet or not, and all later ones are stored. So every reader sees each row once,
// whenever it reads and wherever a sweep was interrupted. Rows are deleted agedDelay after their block was written, so that a reader that
// did not see the block finds them.

const (
	agedDelay = 2 * time.Hour
	agedHash  = 8 // bytes
	agedRows  = maxBlock
)

// agedBlocks are ordered by the id of their last row. A block's id begins with the account and the id of its first row, and its Seq is its
// last row's: of two replicas that write one at once, the one with more rows wins.
func agedBlocks() blockKind { return blockKind{collection: Aged, position: "position"} }

// AgedRow is what is kept of an aged row.
type AgedRow struct {
	Sequence uint64   // of its message
	Ordinals []uint32 // of its entries within the message
	Hash     [agedHash]byte
	settled  int64 // in Unix milliseconds by the fold's clock; known while it is aged
}

// ID is the row's position: the id of its first entry.
func (r *AgedRow) ID() string { return account.LedgerID(r.Sequence, r.Ordinals[0]) }

// Doc is a document of an audit, which compares what is kept of the row. Its head has the hash, and then the ordinals.
func (r *AgedRow) Doc(owner event.AccountID) views.Doc {
	doc := views.Doc{ID: owner.String() + "." + r.ID(), Seq: r.Sequence, Head: bytes.Clone(r.Hash[:])}
	for _, n := range r.Ordinals {
		doc.Head = binary.AppendUvarint(doc.Head, uint64(n))
	}
	return doc
}

// WithoutOrdinals is the document of a row whose ordinals are not known.
func WithoutOrdinals(doc views.Doc) views.Doc {
	return views.Doc{Seq: doc.Seq, Head: doc.Head[:agedHash]}
}

// AgedRowOf is what is kept of a row of the ledger.
func AgedRowOf(doc views.Doc) (r AgedRow, err error) {
	row, hash, err := decodeRow(doc.Head)
	if err != nil {
		return r, err
	}
	for _, e := range takeApart(row) {
		if !account.ValidLedgerID(e.Id) {
			return r, fmt.Errorf("row %s of the ledger has the entry %q", doc.ID, e.Id)
		}
		r.Ordinals = append(r.Ordinals, account.LedgerOrdinal(e.Id))
	}
	r.Hash, r.Sequence, r.settled = hash, account.LedgerSequence(row.Id), row.SettledMs
	return r, nil
}

// decodeRow decodes a row of the ledger, and hashes it without the ids of its entries.
func decodeRow(head []byte) (row *event.LedgerEntry, hash [agedHash]byte, err error) {
	row = &event.LedgerEntry{}
	if err := event.Decode(head, row); err != nil {
		return nil, hash, err
	}
	entries := append([]*event.LedgerEntry{row}, row.Later...)
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i], e.Id = e.Id, ""
	}
	data, err := event.Encode(row)
	for i, e := range entries {
		e.Id = ids[i]
	}
	sum := sha256.Sum256(data)
	return row, [agedHash]byte(sum[:agedHash]), err
}

// agedTimes are times of a block, in Unix milliseconds.
type agedTimes struct {
	written     int64 // by the service's clock
	first, last int64 // settlement of the first and last row, by the fold's clock
}

// agedPut is the block of an account's rows, which follow each other. Its head has their number and agedTimes.
func agedPut(id event.AccountID, rows []AgedRow, now int64) views.Put {
	var data []byte
	before := uint64(0)
	for i := range rows {
		r := &rows[i]
		data = binary.AppendUvarint(data, r.Sequence-before)
		data = binary.AppendUvarint(data, uint64(len(r.Ordinals)))
		last := uint32(0)
		for _, n := range r.Ordinals {
			data = binary.AppendUvarint(data, uint64(n-last))
			last = n
		}
		data = append(data, r.Hash[:]...)
		before = r.Sequence
	}
	first, last := &rows[0], &rows[len(rows)-1]
	doc := views.Doc{ID: id.String() + "." + first.ID(), Seq: last.Sequence, Keys: views.Keys{
		{Name: "account", Value: views.String(id.String())}, {Name: "position", Value: views.String(last.ID())},
	}}
	pack(&doc, len(rows), data)
	for _, millis := range []int64{now, first.settled, last.settled} {
		doc.Head = binary.AppendVarint(doc.Head, millis)
	}
	return views.Put{Collection: Aged, Doc: doc}
}

// timesOf returns the times of a block; 0 for those that it lacks.
func timesOf(doc views.Doc) (t agedTimes) {
	_, n := binary.Uvarint(doc.Head)
	rest := doc.Head[max(n, 0):]
	for _, millis := range []*int64{&t.written, &t.first, &t.last} {
		*millis, n = binary.Varint(rest)
		rest = rest[max(n, 0):]
	}
	return t
}

// ErrAgedBlock: a block of aged rows is not what was written.
var ErrAgedBlock = errors.New("it does not have the rows that its index says")

// decodeAged returns the rows of a block.
func decodeAged(doc views.Doc) (rows []AgedRow, err error) {
	data, err := unpack(doc, nil)
	if err != nil {
		return nil, err
	}
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(data)
		if bad = bad || n <= 0; bad {
			return 0
		}
		data = data[n:]
		return v
	}
	sequence := uint64(0)
	for len(data) > 0 && !bad {
		sequence += number()
		r := AgedRow{Sequence: sequence}
		last := uint32(0)
		for n := number(); n > 0 && !bad; n-- {
			last += num.Uint32(number())
			r.Ordinals = append(r.Ordinals, last)
		}
		if bad = bad || len(data) < agedHash || len(r.Ordinals) == 0; bad {
			break
		}
		data = data[copy(r.Hash[:], data):]
		rows = append(rows, r)
	}
	if bad || len(rows) == 0 || uint64(len(rows)) != records(doc) || rows[len(rows)-1].ID() != positionOf(doc) {
		return nil, fmt.Errorf("block %s: %w", doc.ID, ErrAgedBlock)
	}
	return rows, nil
}

// IsAged reports whether a row of the ledger is aged where AgedUpTo is aged.
func IsAged(doc views.Doc, aged string) bool { return positionOf(doc) <= aged }

// AgedUpTo is the position up to which an account's rows are aged, empty if none is. The error may be ErrAgedBlock.
func AgedUpTo(ctx context.Context, store Rows, id event.AccountID) (string, error) {
	newest, err := newestAged(ctx, store, id)
	if err != nil || newest == nil {
		return "", err
	}
	return agedUpTo(*newest)
}

func agedUpTo(newest views.Doc) (string, error) {
	if at := positionOf(newest); account.ValidLedgerID(at) {
		return at, nil
	}
	return "", fmt.Errorf("block %s: %w", newest.ID, ErrAgedBlock)
}

// positionOf is the position of a row or a block in a ledger.
func positionOf(doc views.Doc) string {
	position, _ := doc.Keys.Get("position").Any().(string)
	return position
}

func newestAged(ctx context.Context, store Rows, id event.AccountID) (*views.Doc, error) {
	docs, err := store.List(ctx, Aged, views.Query{Index: byAccount, Equal: []views.Value{views.String(id.String())}, Desc: true, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", Aged, err)
	}
	if len(docs) == 0 {
		return nil, nil
	}
	return &docs[0], nil
}

// EachAgedRow calls do with what is kept of an account's aged rows, oldest first, from a message on. Blocks that can't be read have none.
func EachAgedRow(ctx context.Context, store Rows, id event.AccountID, from uint64, do func(AgedRow) error) error {
	query := views.Query{
		Equal: []views.Value{views.String(id.String())}, After: []views.Value{views.String(account.LedgerPosition(from))},
	}
	before := ""
	return views.Each(ctx, store, Aged, agedBlocks().byPosition(), query, func(head views.Doc) error {
		docs, err := store.Load(ctx, Aged, []string{head.ID}, views.Full)
		if err != nil || len(docs) == 0 {
			return err
		}
		rows, _ := decodeAged(docs[0])
		for _, r := range rows {
			if at := r.ID(); r.Sequence >= from && at > before {
				before = at
				if err := do(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// AgeLedger ages an account's rows that were settled before a time, by the fold's clock, and deletes rows that were aged agedDelay ago, by
// the clock of now. It reports whether some are left to delete. It may be interrupted, and several replicas may do it at once.
func (p *Projection) AgeLedger(ctx context.Context, id event.AccountID, before, now time.Time) (left bool, err error) {
	newest, err := newestAged(ctx, p.store, id)
	if err != nil {
		return false, err
	}
	aged := ""
	if newest != nil {
		aged = positionOf(*newest)
		if left, err = p.deleteAged(ctx, id, aged, timesOf(*newest).written <= now.Add(-agedDelay).UnixMilli()); err != nil {
			return false, err
		}
	}
	var rows []AgedRow
	err = p.eachAging(ctx, id, aged, before.UnixMilli(), func(r AgedRow) error {
		if len(rows) > 0 && ends(rows, &r) {
			if err := p.store.Commit(ctx, views.Batch{Puts: []views.Put{agedPut(id, rows, now.UnixMilli())}}); err != nil {
				return err
			}
			rows = nil
		}
		rows, left = append(rows, r), true
		return nil
	})
	if err == nil && len(rows) > 0 {
		err = p.store.Commit(ctx, views.Batch{Puts: []views.Put{agedPut(id, rows, now.UnixMilli())}})
	}
	return left, err
}

// ends reports whether a row begins a new block after the others. A block has whole messages, of one month.
func ends(rows []AgedRow, next *AgedRow) bool {
	last := &rows[len(rows)-1]
	return last.Sequence != next.Sequence && (len(rows) >= agedRows || monthOf(last.settled) != monthOf(next.settled))
}

func monthOf(millis int64) uint32 { return event.MonthNumber(time.UnixMilli(millis).UTC()) }

// eachAging calls do with each stored row after a position, up to a time of settlement. Rows of an account are stored in their order.
func (p *Projection) eachAging(ctx context.Context, id event.AccountID, after string, before int64, do func(AgedRow) error) error {
	query := views.Query{Equal: []views.Value{views.String(id.String())}}
	if after != "" {
		query.After, query.AfterID = []views.Value{views.String(after)}, "~"
	}
	p.mu.Lock()
	done := p.done // a later message may have further rows
	p.mu.Unlock()
	return views.Each(ctx, p.store, Ledger, ledgerIndex(), query, func(doc views.Doc) error {
		row, err := AgedRowOf(doc)
		if err != nil {
			return err
		}
		if row.settled >= before || row.Sequence > done {
			return views.ErrStop
		}
		return do(row)
	})
}

// deleteAged deletes the rows up to a position if they are due, and reports whether there are some that are not.
func (p *Projection) deleteAged(ctx context.Context, id event.AccountID, aged string, due bool) (left bool, err error) {
	query := views.Query{Index: byAccount, Equal: []views.Value{views.String(id.String())}, Limit: sweepPage}
	for {
		docs, err := p.store.List(ctx, Ledger, query)
		if err != nil {
			return false, fmt.Errorf("list ledger: %w", err)
		}
		n := slices.IndexFunc(docs, func(d views.Doc) bool { return !IsAged(d, aged) })
		if n < 0 {
			n = len(docs)
		}
		if n == 0 || !due {
			return n > 0, nil
		}
		if err := p.replaceBlocks(ctx, blockKind{collection: Ledger}, docs[:n], nil); err != nil {
			return false, err
		}
	}
}
