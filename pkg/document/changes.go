package document

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// changes are the effects of consecutive messages, at most one per document.
type changes struct {
	writes   map[string]write
	order    []string
	sequence map[string]uint64 // of each write
	outcomes map[event.IdempotencyID]keptAt
	kept     []event.IdempotencyID
	deleted  []write
	blobs    []string // to delete after the commit
	burned   []string // to delete BurnGrace after the commit
}

type keptAt struct {
	outcome  *event.Outcome
	sequence uint64
}

func merge(batch []*message) *changes {
	c := &changes{writes: map[string]write{}, sequence: map[string]uint64{}, outcomes: map[event.IdempotencyID]keptAt{}}
	for _, m := range batch {
		for _, w := range m.writes {
			if earlier, ok := c.writes[w.id]; ok {
				w.created = earlier.created
			} else {
				c.order = append(c.order, w.id)
			}
			c.writes[w.id], c.sequence[w.id] = w, m.sequence
			if w.deletion != nil {
				c.deleted = append(c.deleted, w)
			}
		}
		for _, k := range m.outcomes {
			if _, ok := c.outcomes[k.id]; !ok {
				c.kept = append(c.kept, k.id)
			}
			c.outcomes[k.id] = keptAt{outcome: k.outcome, sequence: m.sequence}
		}
	}
	return c
}

// dropBlob records that no document names a blob any more; "" is ignored.
func (c *changes) dropBlob(key string, burned bool) {
	switch {
	case key == "":
	case burned:
		c.burned = append(c.burned, key)
	default:
		c.blobs = append(c.blobs, key)
	}
}

// encode builds the batch of puts and deletes.
func (c *changes) encode(n names, partition int) (views.Batch, error) {
	puts := len(c.order) + len(c.kept)
	e := newEncoder(n, partition, puts)
	b := views.Batch{Puts: make([]views.Put, 0, puts+1)} // the state follows
	for _, id := range c.order {
		w, ok := c.writes[id]
		switch {
		case !ok: // a version removed by deleteVersions
		case w.entry.doc == nil:
			b.Deletes = append(b.Deletes, views.Delete{Collection: n.documents, ID: id, Seq: c.sequence[id]})
		default:
			put, err := e.put(id, w.entry.doc, c.sequence[id])
			if err != nil {
				return b, err
			}
			put.New = w.created
			b.Puts = append(b.Puts, put)
		}
	}
	for _, id := range c.kept {
		k := c.outcomes[id]
		put, err := e.putOutcome(id, k.outcome, k.sequence)
		if err != nil {
			return b, err
		}
		b.Puts = append(b.Puts, put)
	}
	return b, nil
}
