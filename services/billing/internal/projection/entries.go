package projection

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// The entries of accounts' chains, in blocks. The head of a block has the number of its entries, and its body the hash of the chain
// before the first, and then the entries. A block is indexed by the number of its last entry.

// entryBlocks are ordered by the number of their last entry.
func entryBlocks() blockKind { return blockKind{collection: Entries, position: "number"} }

// entryItem is an entry by the message with a sequence and a time.
type entryItem struct {
	sequence uint64
	time     int64
	account.AccountEntry
}

// entryLog is the part of a Projection that has the entries. Its mutex is the projection's.
type entryLog struct {
	from  int64 // entries of messages before this time, in Unix milliseconds, are not stored unless there is an earlier one that is
	queue []entryItem
}

// push queues the entries of a message.
func (l *entryLog) push(sequence uint64, e *account.Effects) {
	if e.TimeMillis < l.from {
		return
	}
	l.from = 0 // without gaps, whichever clock goes back
	for i := range e.Entries {
		l.queue = append(l.queue, entryItem{sequence, e.TimeMillis, e.Entries[i]})
	}
}

// until returns the queued entries of messages up to a sequence.
func (l *entryLog) until(sequence uint64) []entryItem {
	return until(l.queue, sequence, func(i *entryItem) uint64 { return i.sequence })
}

// EntryRun is a run of consecutive entries of an account's chain.
type EntryRun struct {
	First  uint64       // number of the first entry; 0: no entries
	Before account.Hash // of the chain before it
	Data   []byte       // the entries, event.EntryBytes each
}

// Len is the number of entries.
func (r *EntryRun) Len() int { return len(r.Data) / event.EntryBytes }

// last is the number of the last entry.
func (r *EntryRun) last() uint64 { return r.First + num.Uint64(r.Len()) - 1 }

// After is the hash of the chain after the first n entries.
func (r *EntryRun) After(n int) account.Hash {
	hash := r.Before
	for i := range n {
		hash = event.LinkEntry(hash, (*[event.EntryBytes]byte)(r.Data[i*event.EntryBytes:]))
	}
	return hash
}

// skip removes the first n entries.
func (r *EntryRun) skip(n int) {
	r.First, r.Before, r.Data = r.First+num.Uint64(n), r.After(n), r.Data[n*event.EntryBytes:]
}

// add appends what another run has after this one, and reports whether that follows without a gap. A run that is empty becomes the
// other.
func (r *EntryRun) add(other EntryRun) bool {
	switch {
	case r.First == 0:
		*r = EntryRun{other.First, other.Before, slices.Clone(other.Data)}
	case other.First > r.last()+1:
		return false
	case other.last() > r.last():
		r.Data = append(r.Data, other.Data[(r.last()+1-other.First)*event.EntryBytes:]...)
	}
	return true
}

// limited is the run with the first n entries at most.
func (r EntryRun) limited(n int) EntryRun {
	r.Data = r.Data[:min(len(r.Data), n*event.EntryBytes)]
	return r
}

var errEntries = errors.New("it does not have the entries that its index says")

// DecodeEntries returns the entries of a block.
func DecodeEntries(doc views.Doc) (run EntryRun, err error) {
	data, err := unpack(doc, nil)
	if err != nil {
		return run, err
	}
	n, last := records(doc), num.Uint64(doc.Keys.Get("number").Int64())
	if n == 0 || n > last || uint64(len(data)) != sha256.Size+n*event.EntryBytes {
		return run, fmt.Errorf("block of entries %s: %w", doc.ID, errEntries)
	}
	return EntryRun{last - n + 1, account.Hash(data), data[sha256.Size:]}, nil
}

// EncodeEntries sets the entries of a block.
func EncodeEntries(doc *views.Doc, run *EntryRun) {
	pack(doc, run.Len(), slices.Concat(run.Before[:], run.Data))
}

// entryPut returns the document of a run.
func (p *Projection) entryPut(id event.AccountID, sequence uint64, timeMillis int64, run *EntryRun) views.Put {
	doc := newBlock(p.stream, id, sequence, timeMillis)
	doc.Keys = append(doc.Keys, views.Key{Name: "number", Value: views.Int(num.Int64(run.last()))})
	EncodeEntries(&doc, run)
	return views.Put{Collection: Entries, Doc: doc, New: true}
}

// addEntries adds blocks with entries to a batch. sequence is the checkpoint once the batch is committed. Accounts without requests
// in the batch are added to counts.
func (p *Projection) addEntries(b *views.Batch, sequence uint64, items []entryItem, counts map[event.AccountID]int) {
	type open struct {
		EntryRun
		time int64
	}
	runs := map[event.AccountID]*open{}
	for i := range items {
		item := &items[i]
		r := runs[item.Account]
		switch {
		case r == nil:
			r = &open{}
			runs[item.Account] = r
		case r.Len() == maxBlock:
			b.Puts = append(b.Puts, p.entryPut(item.Account, sequence, r.time, &r.EntryRun))
			r.EntryRun = EntryRun{Data: r.Data[:0]}
		}
		if r.First == 0 {
			r.First, r.Before = item.Number, item.Before
		}
		r.Data, r.time = append(r.Data, item.Data[:]...), item.time
	}
	for id, r := range runs { // the order has no effect
		b.Puts = append(b.Puts, p.entryPut(id, sequence, r.time, &r.EntryRun))
		counts[id] += 0 // a block, even without requests
	}
}

// joinEntries joins the small blocks of an account.
func (p *Projection) joinEntries(ctx context.Context, id event.AccountID) error {
	query := views.Query{Index: byAccount, Equal: []views.Value{views.String(id.String())}, Desc: true, Limit: loadBlocks}
	heads, err := p.store.List(ctx, Entries, query)
	if err != nil {
		return fmt.Errorf("list %s: %w", Entries, err)
	}
	slices.Reverse(heads)
	return p.joinSmall(ctx, entryBlocks(), heads, func(blocks []views.Doc) (puts []views.Put, err error) {
		var runs []EntryRun
		for _, doc := range blocks {
			run, err := DecodeEntries(doc)
			if err != nil {
				return nil, err
			}
			if n := len(runs); n == 0 || runs[n-1].Len()+run.Len() > maxBlock || !runs[n-1].add(run) {
				runs = append(runs, run)
			}
		}
		last := blocks[len(blocks)-1]
		for i := range runs {
			puts = append(puts, p.entryPut(id, last.Seq, last.Keys.Get("time").Int64(), &runs[i]))
		}
		return puts, nil
	})
}

// EntriesAfter returns up to limit entries of an account from the first one on that is kept and has a number greater than after:
// those stored, and those pushed that are not stored yet. They end before the first that is missing.
func (p *Projection) EntriesAfter(ctx context.Context, id event.AccountID, after uint64, limit int) (run EntryRun, err error) {
	// The queue first: what is committed meanwhile is in the blocks too.
	var queued EntryRun
	p.mu.Lock()
	for i := range p.chains.queue {
		if e := &p.chains.queue[i]; e.Account == id && e.Number > after && queued.Len() < limit {
			queued.add(EntryRun{e.Number, e.Before, e.Data[:]})
		}
	}
	p.mu.Unlock()
	blocks, err := p.entryBlocksAfter(ctx, id, after, limit)
	if err != nil {
		return run, err
	}
	for _, doc := range blocks {
		block, err := DecodeEntries(doc)
		if err != nil {
			return run, err
		}
		if block.First <= after {
			block.skip(num.Int(after + 1 - block.First))
		}
		if !run.add(block) {
			return run.limited(limit), nil
		}
	}
	if queued.First != 0 {
		run.add(queued)
	}
	return run.limited(limit), nil
}

// entryBlocksAfter loads the first blocks of an account that have entries after a number, as many as have limit entries.
func (p *Projection) entryBlocksAfter(ctx context.Context, id event.AccountID, after uint64, limit int) (blocks []views.Doc, err error) {
	query := views.Query{
		Index: byAccount, Equal: []views.Value{views.String(id.String())}, After: []views.Value{views.Int(num.Int64(after))}, AfterID: "~",
		Limit: limit,
	}
	for range readAttempts {
		heads, err := p.store.List(ctx, Entries, query)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", Entries, err)
		}
		heads = p.ofStream(heads)
		n, found := 0, uint64(0)
		for n < len(heads) && found < num.Uint64(limit)+maxBlock { // after is anywhere in the first block
			found += records(heads[n])
			n++
		}
		if blocks, err = p.loadBlocks(ctx, entryBlocks(), heads[:n]); err != nil || len(blocks) == n {
			return blocks, err
		}
	}
	return blocks, nil // blocks are being deleted
}

// EntryAccounts returns the accounts of a stream that have blocks of entries.
func (p *Projection) EntryAccounts(ctx context.Context) (map[string]bool, error) {
	return p.accounts(ctx, entryBlocks())
}

// EntryBlocks returns the blocks of an account's entries, in the order of their sequences.
func (p *Projection) EntryBlocks(ctx context.Context, id event.AccountID) (blocks []views.Doc, err error) {
	for range readAttempts {
		heads, err := p.blockHeads(ctx, entryBlocks(), id, 0)
		if err != nil {
			return nil, err
		}
		heads = p.ofStream(heads)
		if blocks, err = p.loadBlocks(ctx, entryBlocks(), heads); err != nil || len(blocks) == len(heads) {
			return blocks, err
		}
	}
	return blocks, nil // blocks are being deleted
}
