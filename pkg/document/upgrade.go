package document

import (
	"context"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// completeEarlier writes the message at the checkpoint where an earlier version was killed while it did.
// That version split the changes of a message too large for one commit into chunks, which it kept in a
// collection of their own. It moved the checkpoint, wrote the changes, and deleted the chunks. So if
// there are chunks of the message at the checkpoint, their changes may not be written. Writing them
// twice does no harm.
func (p *partition) completeEarlier(ctx context.Context, checkpoint uint64) error {
	var b views.Batch
	for n := 0; ; n++ {
		id := fmt.Sprintf("%s/%d/%d", p.stream, checkpoint, n)
		var docs []views.Doc
		err := p.model.read(ctx, func(ctx context.Context) (err error) {
			docs, err = p.deps.Views.Load(ctx, p.names.redo, []string{id}, views.Full)
			return err
		})
		if err == nil && len(docs) == 0 {
			break
		}
		if err == nil {
			err = p.addChunk(&b, docs[0])
		}
		if err != nil {
			return fmt.Errorf("chunk %s: %w", id, err)
		}
	}
	if len(b.Deletes) == 0 {
		return nil
	}
	return p.model.write(ctx, b)
}

// addChunk adds the changes of a chunk to b, and its deletion.
func (p *partition) addChunk(b *views.Batch, d views.Doc) error {
	chunk := &event.DomainRedo{}
	if err := event.Decode(d.Body, chunk); err != nil {
		return err
	}
	b.Deletes = append(b.Deletes, views.Delete{Collection: p.names.redo, ID: d.ID, Seq: d.Seq})
	for _, w := range chunk.Writes {
		if w.Delete {
			b.Deletes = append(b.Deletes, views.Delete{Collection: w.Collection, ID: w.Id, Seq: w.Sequence})
			continue
		}
		put, err := p.putAgain(w)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, put)
	}
	return nil
}

// putAgain makes the put that was encoded as w. Its index keys, which w lacks, follow from its contents.
func (p *partition) putAgain(w *event.DomainWrite) (views.Put, error) {
	d := views.Doc{ID: w.Id, Seq: w.Sequence, Head: w.Head, Body: w.Body}
	if w.Collection == p.names.outcomes {
		id, o, err := readOutcome(d)
		if err != nil {
			return views.Put{}, err
		}
		return newEncoder(p.names, p.number, 1).putOutcome(id, o, w.Sequence)
	}
	doc, err := readDocument(d)
	if err != nil {
		return views.Put{}, err
	}
	return newEncoder(p.names, p.number, 1).put(w.Id, doc, w.Sequence)
}
