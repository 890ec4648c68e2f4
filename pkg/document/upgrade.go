package document

import (
	"context"
	"fmt"
	"strconv"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// completeEarlier writes what an earlier version of the engine left half written at the checkpoint.
// That version split a message too large for one commit into chunks, documents of a collection of
// their own, moved the checkpoint and wrote the chunks after it; the chunks went last. So where there
// are chunks of the message at the checkpoint, a crash came in between. Writing them twice changes
// nothing.
func (s *session) completeEarlier(ctx context.Context, checkpoint uint64) error {
	var b views.Batch
	for chunk := 0; ; chunk++ {
		id := s.stream + "/" + strconv.FormatUint(checkpoint, 10) + "/" + strconv.Itoa(chunk)
		var docs []views.Doc
		err := s.attempt(ctx, "load", func(ctx context.Context) (err error) {
			docs, err = s.e.deps.Views.Load(ctx, s.names.redo, []string{id}, views.Full)
			return err
		})
		if err != nil {
			return fmt.Errorf("load chunk %s: %w", id, err)
		}
		if len(docs) == 0 {
			break
		}
		if err := s.addChunk(&b, docs[0]); err != nil {
			return fmt.Errorf("chunk %s: %w", id, err)
		}
		b.Deletes = append(b.Deletes, views.Delete{Collection: s.names.redo, ID: id, Seq: docs[0].Seq})
	}
	if len(b.Deletes) == 0 {
		return nil
	}
	if err := s.write(ctx, b); err != nil {
		return fmt.Errorf("complete message %d of %s: %w", checkpoint, s.stream, err)
	}
	return nil
}

func (s *session) addChunk(b *views.Batch, d views.Doc) error {
	chunk := &event.DomainRedo{}
	if err := event.Decode(d.Body, chunk); err != nil {
		return err
	}
	for _, w := range chunk.Writes {
		if w.Delete {
			b.Deletes = append(b.Deletes, views.Delete{Collection: w.Collection, ID: w.Id, Seq: w.Sequence})
			continue
		}
		put, err := s.putAgain(w)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, put)
	}
	return nil
}

// putAgain makes the put that was encoded as w; its index keys follow from what it holds.
func (s *session) putAgain(w *event.DomainWrite) (views.Put, error) {
	d := views.Doc{ID: w.Id, Seq: w.Sequence, Head: w.Head, Body: w.Body}
	if w.Collection == s.names.outcomes {
		id, o, err := readOutcome(d)
		if err != nil {
			return views.Put{}, err
		}
		return s.names.putOutcome(s.partition, id, o, w.Sequence)
	}
	doc, err := readDocument(d)
	if err != nil {
		return views.Put{}, err
	}
	return s.names.put(s.partition, w.Id, doc, w.Sequence)
}
