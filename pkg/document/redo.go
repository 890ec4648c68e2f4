package document

import (
	"context"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// redoChunks encodes changes into documents that each fit a commit.
func (s *session) redoChunks(changes views.Batch, sequence uint64) ([]views.Put, error) {
	var chunks []views.Put
	var current event.DomainRedo
	size := 0
	flush := func() error {
		body, err := event.Encode(&current)
		if err != nil {
			return err
		}
		id := redoID(s.stream, sequence, len(chunks))
		chunks = append(chunks, views.Put{Collection: s.names.redo, Doc: views.Doc{ID: id, Seq: sequence, Body: body}})
		current.Writes, size = nil, 0
		return nil
	}
	add := func(w *event.DomainWrite) error {
		n := w.SizeVT()
		if size > 0 && size+n > redoBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		current.Writes = append(current.Writes, w)
		size += n
		return nil
	}
	for _, put := range changes.Puts {
		if err := add(&event.DomainWrite{Collection: put.Collection, Id: put.Doc.ID, Sequence: put.Doc.Seq, Head: put.Doc.Head, Body: put.Doc.Body}); err != nil {
			return nil, err
		}
	}
	for _, d := range changes.Deletes {
		if err := add(&event.DomainWrite{Collection: d.Collection, Id: d.ID, Sequence: d.Seq, Delete: true}); err != nil {
			return nil, err
		}
	}
	return chunks, flush()
}

// redo applies the chunks that belong to state, and says so. Done twice it does nothing new: documents
// that were written by a later message stay.
func (s *session) redo(ctx context.Context, state *event.DomainState) error {
	if state.GetRedoChunks() == 0 {
		return nil
	}
	for i := range int(state.RedoChunks) {
		if err := s.redoChunk(ctx, redoID(s.stream, state.Sequence, i)); err != nil {
			return fmt.Errorf("redo message %d of %s: %w", state.Sequence, s.stream, err)
		}
	}
	done := &event.DomainState{Sequence: state.Sequence, TimeMs: state.TimeMs, Sources: state.Sources}
	put, err := s.names.putState(s.stream, done)
	if err != nil {
		return err
	}
	b := views.Batch{Puts: []views.Put{put}}
	for i := range int(state.RedoChunks) {
		b.Deletes = append(b.Deletes, views.Delete{Collection: s.names.redo, ID: redoID(s.stream, state.Sequence, i), Seq: state.Sequence})
	}
	return s.attempt(ctx, "commit", func(ctx context.Context) error { return s.e.deps.Views.Commit(ctx, b) })
}

func (s *session) redoChunk(ctx context.Context, id string) error {
	var docs []views.Doc
	err := s.attempt(ctx, "load", func(ctx context.Context) (err error) {
		docs, err = s.e.deps.Views.Load(ctx, s.names.redo, []string{id}, views.Full)
		return err
	})
	if err != nil || len(docs) == 0 {
		return err // none: another session was here, and is done with all of them
	}
	chunk := &event.DomainRedo{}
	if err := event.Decode(docs[0].Body, chunk); err != nil {
		return err
	}
	var b views.Batch
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
	return s.attempt(ctx, "commit", func(ctx context.Context) error { return s.e.deps.Views.Commit(ctx, b) })
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
