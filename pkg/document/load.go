package document

import (
	"context"
	"fmt"
	"slices"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// known holds the documents and kept outcomes touched by a batch, as of its next request.
type known struct {
	documents map[string]*event.Document // nil: does not exist
	damaged   map[string]*event.Content  // content that does not match its hash, by document
	outcomes  map[event.IdempotencyID]*event.Outcome
}

func (k known) take(item string, e *entry) {
	k.documents[item] = e.doc
	if e.damaged {
		k.damaged[item] = e.doc.GetContent()
	}
}

// load looks in memory and queries the read model for the rest: once for documents, once for heads where those suffice, and
// once for outcomes.
//
// A create's document is looked up in memory only. Its id is 71 random bits drawn for this create, so it is not taken, and a
// query would make every create wait for the read model.
func (f *applier) load(ctx context.Context, sequence uint64, batch *event.RequestBatch) (known, error) {
	k := known{documents: make(map[string]*event.Document, len(batch.Requests)), damaged: map[string]*event.Content{}, outcomes: map[event.IdempotencyID]*event.Outcome{}}
	var full, heads, kept []string
	marks := map[string]uint64{}
	for _, r := range batch.Requests {
		if fold.IsKept(r) {
			id := event.IdempotencyID(r.IdempotencyId)
			if _, seen := k.outcomes[id]; !seen {
				k.outcomes[id] = f.memory.outcome(id)
				if k.outcomes[id] == nil {
					kept = append(kept, outcomeID(id))
				}
			}
		}
		if !event.ValidItemID(r.Item) {
			continue
		}
		if _, seen := k.documents[r.Item]; seen {
			continue
		}
		e, mark := f.memory.get(r.Item)
		if e != nil {
			k.take(r.Item, e)
			continue
		}
		switch r.Action.(type) {
		case *event.Request_Update, *event.Request_Burn:
			full = append(full, r.Item)
			marks[r.Item] = mark
		case *event.Request_Delete, *event.Request_Expire:
			heads = append(heads, r.Item)
		}
	}
	if len(full)+len(heads)+len(kept) == 0 {
		return k, nil
	}
	slices.Sort(full)
	full = slices.Compact(full)
	heads = slices.DeleteFunc(heads, func(id string) bool { _, found := slices.BinarySearch(full, id); return found })
	slices.Sort(heads)
	heads = slices.Compact(heads)
	m := missing{sequence: sequence, full: full, heads: heads, kept: kept, marks: marks}
	return k, f.model.read(ctx, func(ctx context.Context) error { return f.loadMissing(ctx, k, m) })
}

// missing lists the ids touched by a message that are not in memory.
type missing struct {
	sequence          uint64 // of the message
	full, heads, kept []string
	marks             map[string]uint64
}

// loadMissing fills k with the states before the message. It fails with errAhead if the read model may hold later ones.
func (f *applier) loadMissing(ctx context.Context, k known, m missing) error {
	if err := f.model.waitCurrent(ctx); err != nil {
		return err
	}
	found, newest := 0, uint64(0)
	load := func(collection string, ids []string, parts views.Parts, take func(views.Doc) error) error {
		return f.model.load(ctx, collection, ids, parts, func(d views.Doc) error {
			found, newest = found+1, max(newest, d.Seq)
			return take(d)
		})
	}
	err := load(f.names.documents, m.full, views.Full, func(d views.Doc) error {
		doc, err := readDocument(d)
		if err == nil {
			e := f.loadedEntry(d.ID, doc)
			k.take(d.ID, e)
			f.memory.fill(d.ID, e, m.marks[d.ID])
		}
		return err
	})
	if err != nil {
		return err
	}
	err = load(f.names.documents, m.heads, views.Heads, func(d views.Doc) error {
		doc, err := readDocument(d)
		k.documents[d.ID] = doc
		return err
	})
	if err != nil {
		return err
	}
	err = load(f.names.outcomes, m.kept, views.Heads, func(d views.Doc) error {
		id, o, err := readOutcome(d)
		k.outcomes[id] = o
		return err
	})
	switch {
	case err != nil:
		return err
	case newest >= m.sequence:
		return fmt.Errorf("%w: to %d", errAhead, newest)
	case found == len(m.full)+len(m.heads)+len(m.kept):
		return nil
	}
	// A missing document may have been deleted by a later message, which no sequence reveals.
	return f.model.checkAlone(ctx)
}
