package document

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// versionChunk is how many earlier versions of a deleted document are looked up and deleted at once.
const versionChunk = 1000

// project commits what is folded and settled, in order and behind the fold, until ctx ends.
func (s *session) project(ctx context.Context) error {
	for {
		select {
		case <-s.pending.work:
		case <-ctx.Done():
			return nil
		}
		s.gather(ctx)
		for {
			b := &s.e.cfg.Bounds
			batch := s.pending.ready(b.CommitBytes, b.CommitMessages)
			if len(batch) == 0 {
				break
			}
			if err := s.projectBatch(ctx, batch); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				return err
			}
		}
	}
}

// gather waits a moment for company, unless somebody waits for the projection.
func (s *session) gather(ctx context.Context) {
	t := time.NewTimer(s.e.cfg.Bounds.CommitDelay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.pending.hurry:
	case <-ctx.Done():
	}
}

// projection is what a run of messages changes, each document once.
type projection struct {
	writes   map[string]write
	order    []string
	sequence map[string]uint64
	outcomes map[event.IdempotencyID]keptAt
	kept     []event.IdempotencyID
	deleted  []write  // documents, with what they leave behind
	blobs    []string // to be deleted once committed
	burned   []string // likewise, but a moment later
}

type keptAt struct {
	outcome  *event.Outcome
	sequence uint64
}

func merge(batch []*message) *projection {
	p := &projection{writes: map[string]write{}, sequence: map[string]uint64{}, outcomes: map[event.IdempotencyID]keptAt{}}
	for _, m := range batch {
		for _, w := range m.writes {
			if _, ok := p.writes[w.id]; !ok {
				p.order = append(p.order, w.id)
			}
			p.writes[w.id], p.sequence[w.id] = w, m.sequence
			if w.gone != nil {
				p.deleted = append(p.deleted, w)
			}
		}
		for _, k := range m.outcomes {
			if _, ok := p.outcomes[k.id]; !ok {
				p.kept = append(p.kept, k.id)
			}
			p.outcomes[k.id] = keptAt{outcome: k.outcome, sequence: m.sequence}
		}
	}
	return p
}

// bury finds the earlier versions of what is deleted, takes them out of the projection and the read
// model, and collects the blobs that nothing names any more.
//
// They go ahead of the commit: their document's deletion is decided, without it nobody can read them,
// and a crash in between repeats the work. A document has any number of them, and a commit is bounded.
func (s *session) bury(ctx context.Context, p *projection) error {
	for _, w := range p.deleted {
		if w.gone.blob != "" {
			p.drop(w.gone.blob, w.gone.burned)
		}
		for first := w.gone.firstVersion; first <= w.gone.lastVersion; first += versionChunk {
			last := min(first+versionChunk-1, w.gone.lastVersion)
			var ids []string
			for v := first; v <= last; v++ {
				id := versionID(w.id, v)
				ids = append(ids, id)
				if pending, ok := p.writes[id]; ok {
					p.drop(pending.entry.doc.GetContent().GetBlob(), false)
					delete(p.writes, id)
				}
			}
			if err := s.buryVersions(ctx, p, ids, p.sequence[w.id]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *projection) drop(blob string, burned bool) {
	switch {
	case blob == "":
	case burned:
		p.burned = append(p.burned, blob)
	default:
		p.blobs = append(p.blobs, blob)
	}
}

func (s *session) buryVersions(ctx context.Context, p *projection, ids []string, sequence uint64) error {
	var docs []views.Doc
	err := s.attempt(ctx, "load", func(ctx context.Context) (err error) {
		if err := s.waitCurrent(ctx); err != nil {
			return err
		}
		docs, err = s.e.deps.Views.Load(ctx, s.names.versions, ids, views.Heads)
		return err
	})
	if err != nil {
		return fmt.Errorf("load earlier versions: %w", err)
	}
	var dead views.Batch
	for _, d := range docs {
		head, err := readDocument(d)
		if err != nil {
			return err
		}
		p.drop(head.GetContent().GetBlob(), false)
		dead.Deletes = append(dead.Deletes, views.Delete{Collection: s.names.versions, ID: d.ID, Seq: sequence})
	}
	if len(dead.Deletes) == 0 {
		return nil
	}
	return s.write(ctx, dead)
}

// projectBatch commits a run of messages and lets go of what memory held for them.
func (s *session) projectBatch(ctx context.Context, batch []*message) error {
	p := merge(batch)
	if err := s.bury(ctx, p); err != nil {
		return err
	}
	last := batch[len(batch)-1]
	from := s.pending.projectedTo()
	changes, err := s.changes(p)
	if err != nil {
		return err
	}
	commit := views.Batch{Stream: s.stream, From: from, To: last.sequence, Puts: changes.Puts, Deletes: changes.Deletes}
	state, err := s.names.putState(s.stream, last.state)
	if err != nil {
		return err
	}
	commit.Puts = append(commit.Puts, state)
	s.committing.Store(last.sequence)
	if err := s.commit(ctx, commit); err != nil {
		return err
	}
	s.e.metrics.commits.Inc()
	s.release(batch, p)
	return nil
}

// changes are the puts and deletes of a projection.
func (s *session) changes(p *projection) (views.Batch, error) {
	var b views.Batch
	for _, id := range p.order {
		w, ok := p.writes[id]
		switch {
		case !ok: // an earlier version of what is deleted
		case w.entry.doc == nil:
			b.Deletes = append(b.Deletes, views.Delete{Collection: s.names.documents, ID: id, Seq: p.sequence[id]})
		default:
			put, err := s.names.put(s.partition, id, w.entry.doc, p.sequence[id])
			if err != nil {
				return b, err
			}
			b.Puts = append(b.Puts, put)
		}
	}
	for _, id := range p.kept {
		k := p.outcomes[id]
		put, err := s.names.putOutcome(s.partition, id, k.outcome, k.sequence)
		if err != nil {
			return b, err
		}
		b.Puts = append(b.Puts, put)
	}
	return b, nil
}

// write commits b. A large batch has the time of one call for every 12 MB, which is how MongoDB stores it.
func (s *session) write(ctx context.Context, b views.Batch) error {
	wait := s.e.cfg.Bounds.ViewWait * time.Duration(1+b.SizeBytes()/views.MaxDocBytes)
	return s.attemptFor(ctx, wait, "commit", func(ctx context.Context) error { return s.e.deps.Views.Commit(ctx, b) })
}

// commit moves the checkpoint, and with it all of b.
func (s *session) commit(ctx context.Context, b views.Batch) error {
	err := s.write(ctx, b)
	if !errors.Is(err, views.ErrConflict) {
		return err
	}
	// Either an attempt whose outcome was unknown has happened, or somebody else is projecting. Who
	// came to the same checkpoint has committed the same.
	var checkpoint uint64
	err = s.attempt(ctx, "load", func(ctx context.Context) (err error) {
		checkpoint, err = s.e.deps.Views.Checkpoint(ctx, b.Stream)
		return err
	})
	if err == nil && checkpoint != b.To {
		err = fmt.Errorf("%w: to %d, from %d to %d was tried", errAhead, checkpoint, b.From, b.To)
	}
	return err
}

// release hands what is projected from the overlay to the cache, and its blobs to be deleted. First it says
// how far that is: who misses a document in memory must not take an older read model for a current one.
func (s *session) release(batch []*message, p *projection) {
	bytes, messages := s.pending.drop(batch)
	for _, m := range batch {
		for _, w := range m.writes {
			s.mem.projected(w.id, w.entry)
		}
		for _, k := range m.outcomes {
			s.mem.outcomeProjected(k.id, k.outcome)
		}
	}
	s.e.metrics.overlay.Set(float64(bytes))
	s.e.metrics.unprojected.Set(float64(messages))
	now := s.e.deps.Clock()
	s.blobs.add(now, p.blobs)
	s.blobs.add(now.Add(s.e.cfg.Bounds.BurnGrace), p.burned)
}
