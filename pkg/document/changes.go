package document

import (
	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// changes are those of a run of messages, each document once.
type changes struct {
	writes   map[string]write
	order    []string
	sequence map[string]uint64 // of each write
	outcomes map[event.IdempotencyID]keptAt
	kept     []event.IdempotencyID
	deleted  []write
	blobs    []string // to be deleted once committed
	burned   []string // likewise, BurnGrace later
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

// dropBlob notes a blob that no document names any more; "" is none.
func (c *changes) dropBlob(key string, burned bool) {
	switch {
	case key == "":
	case burned:
		c.burned = append(c.burned, key)
	default:
		c.blobs = append(c.blobs, key)
	}
}

// encode makes the puts and deletes.
func (c *changes) encode(n names, partition int) (views.Batch, error) {
	puts := len(c.order) + len(c.kept)
	e := newEncoder(n, partition, puts)
	b := views.Batch{Puts: make([]views.Put, 0, puts+1)} // the state follows
	for _, id := range c.order {
		w, ok := c.writes[id]
		switch {
		case !ok: // a version that deleteVersions has taken out
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
