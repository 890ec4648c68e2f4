package document

import (
	"context"
	"fmt"
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// completeEarlier completes a commit that an earlier version of the engine left half written at the checkpoint. That
// version split a message that was too large for one commit into chunks: it stored them as documents of their own
// collection, moved the checkpoint, wrote their content, and deleted them last. So chunks of the message at the checkpoint
// mean that a crash came in between. To write them twice changes nothing.
func (p *partition) completeEarlier(ctx context.Context, checkpoint uint64) error {
	var b views.Batch
	for chunk := 0; ; chunk++ {
		id := p.stream + "/" + strconv.FormatUint(checkpoint, 10) + "/" + strconv.Itoa(chunk)
		var docs []views.Doc
		err := p.model.attempt(ctx, "load", func(ctx context.Context) (err error) {
			docs, err = p.deps.Views.Load(ctx, p.names.redo, []string{id}, views.Full)
			return err
		})
		if err != nil {
			return fmt.Errorf("load chunk %s: %w", id, err)
		}
		if len(docs) == 0 {
			break
		}
		if err := p.addChunk(&b, docs[0]); err != nil {
			return fmt.Errorf("chunk %s: %w", id, err)
		}
		b.Deletes = append(b.Deletes, views.Delete{Collection: p.names.redo, ID: id, Seq: docs[0].Seq})
	}
	if len(b.Deletes) == 0 {
		return nil
	}
	if err := p.model.write(ctx, b); err != nil {
		return fmt.Errorf("complete message %d of %s: %w", checkpoint, p.stream, err)
	}
	return nil
}

func (p *partition) addChunk(b *views.Batch, d views.Doc) error {
	chunk := &event.DomainRedo{}
	if err := event.Decode(d.Body, chunk); err != nil {
		return err
	}
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

// putAgain makes the put that was encoded as w. Its index keys follow from its content.
func (p *partition) putAgain(w *event.DomainWrite) (views.Put, error) {
	d := views.Doc{ID: w.Id, Seq: w.Sequence, Head: w.Head, Body: w.Body}
	if w.Collection == p.names.outcomes {
		id, o, err := readOutcome(d)
		if err != nil {
			return views.Put{}, err
		}
		return p.names.putOutcome(p.number, id, o, w.Sequence)
	}
	doc, err := readDocument(d)
	if err != nil {
		return views.Put{}, err
	}
	return p.names.put(p.number, w.Id, doc, w.Sequence)
}
