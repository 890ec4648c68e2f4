package partition

import (
	"context"
	"encoding/hex"
	"slices"
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/projection"
)

// compareEntries compares the stored entries of each account with the replayed chain, from the first stored entry on: older ones are
// deleted, and an earlier version stored none. The hash after the last entry covers all before it.
func (a *auditing) compareEntries(ctx context.Context, fold *account.Fold, live position) error {
	if upTo, err := a.writtenUpTo(ctx, live.at); err != nil || upTo == 0 {
		return err
	}
	names, err := a.projection.EntryAccounts(ctx)
	if err != nil {
		return err
	}
	var ids []event.AccountID
	for name := range names { // sorted below
		if id, err := event.ParseAccountID(name); err == nil && fold.Keeps(uint64(id)) && a.exists(id) &&
			(a.options.account == 0 || a.options.account == id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		blocks, err := a.projection.EntryBlocks(ctx, id)
		if err == nil {
			err = a.ofJournal(ctx, tableEntries, id, blocks, live.at)
		}
		if err != nil {
			return err
		}
		c := storedChain{auditing: a, id: id, at: live.at}
		c.number, c.hash = fold.Receipt(id)
		c.compare(blocks)
	}
	return nil
}

// storedChain are the entries of an account in the read model.
type storedChain struct {
	*auditing
	id     event.AccountID
	at     uint64       // end of the replay
	number uint64       // of the last entry, by the replay
	hash   account.Hash // after it
}

// compare compares blocks in the order of their numbers, up to the first difference: nothing after it is known to be right.
func (c *storedChain) compare(blocks []views.Doc) {
	var last uint64 // entry that was read
	var hash account.Hash
	for i, doc := range blocks {
		run, err := projection.DecodeEntries(doc)
		switch {
		case err != nil:
			c.differs(doc.ID, "", "as billing wrote it", err.Error())
			return
		case i == 0 && run.First <= c.number:
			last, hash = run.First-1, run.Before
		case run.First > c.number && doc.Seq > c.at:
			continue // later than the replay
		case run.First > last+1 && last < c.number:
			c.differs(number(last+1), "", "present", "missing")
			return
		case run.First != last+1 || run.First > c.number:
			c.differs(number(run.First), "", "missing", "present")
			return
		}
		if run.Before != hash {
			c.differs(number(last), "hash", hex.EncodeToString(run.Before[:]), hex.EncodeToString(hash[:]))
			return
		}
		n := min(run.Len(), num.Int(c.number-last))
		if n < run.Len() && doc.Seq <= c.at {
			c.differs(number(c.number+1), "", "missing", "present")
			return
		}
		last, hash = last+num.Uint64(n), run.After(n)
		c.entries += n
	}
	switch {
	case last == 0: // none is stored, or only later ones
	case last < c.number:
		c.differs(number(last+1), "", "present", "missing")
	case hash != c.hash:
		c.differs(number(last), "hash", hex.EncodeToString(c.hash[:]), hex.EncodeToString(hash[:]))
	}
}

func number(n uint64) string { return strconv.FormatUint(n, 10) }

func (c *storedChain) differs(row, field, expected, have string) {
	c.part = append(c.part, found{table: tableEntries, list: []*event.AuditDifference{{
		Table: tableEntries, Account: uint64(c.id), Row: row, Field: field, Expected: expected, Found: have,
	}}})
}
