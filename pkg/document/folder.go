package document

import (
	"context"
	"fmt"
	"slices"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
)

const (
	loadChunk    = 500     // documents loaded at once, so that their contents fit into memory
	recentBytes  = 8 << 20 // of a batch's answers, beyond which it is not kept to be answered again
	sweepSources = 1024    // sources remembered before those idle are looked for
)

// handle folds one message: it decides, publishes what it decided to readers, answers what is safe to
// answer, and leaves the rest to the settlements and the projection. An error starts the session again.
func (s *session) handle(ctx context.Context, m journal.Message) error {
	if err := s.pending.waitRoom(ctx); err != nil {
		return err
	}
	batch := &event.RequestBatch{}
	if err := event.Decode(m.Data, batch); err != nil {
		// It stays in the journal, nobody can be answered, and the next time it will be no better.
		s.log.Error("message can't be read and is passed over", "sequence", m.Sequence, "error", err)
		batch = &event.RequestBatch{}
	}
	now, repeat := s.state.Enter(fold.Message{Sequence: m.Sequence, StoredMS: m.Time.UnixMilli(), Batch: batch})
	folded := &message{sequence: m.Sequence, source: batch.Source, number: batch.Number}
	if repeat {
		s.answerAgain(batch)
		return s.finish(ctx, folded, nil)
	}
	known, err := s.load(ctx, m.Sequence, batch)
	if err != nil {
		return err
	}
	groups := s.decide(folded, known, batch, now, m.Time.UnixMilli()+batch.OffsetMs)
	for _, w := range folded.writes {
		s.mem.publish(w.id, w.entry)
	}
	for _, k := range folded.outcomes {
		s.mem.publishOutcome(k.id, k.outcome)
	}
	s.answer(folded.source, folded.number, folded.sequence, folded.answers)
	s.remember(folded)
	return s.finish(ctx, folded, groups)
}

// finish gives the message to the projection and its settlements to billing.
func (s *session) finish(ctx context.Context, m *message, groups []*settlements) error {
	m.state = s.state.Snapshot()
	m.unsettled.Store(int32(len(groups)))
	bytes, messages := s.pending.add(m)
	s.e.metrics.messages.Inc()
	s.e.metrics.overlay.Set(float64(bytes))
	s.e.metrics.unprojected.Set(float64(messages))
	s.folded.Set(m.sequence)
	for _, g := range groups {
		g.message = m
		if err := s.settle(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// known is what the fold knows of the documents and kept outcomes that a batch touches.
type known struct {
	documents map[string]*event.Document // nil values: there is none
	outcomes  map[event.IdempotencyID]*event.Outcome
}

// load looks in memory and asks the read model for the rest, in one query for documents, one for heads
// where no more is needed, and one for outcomes.
//
// The document of a create is looked for in memory only. Its id is 71 random bits that were drawn for
// this create, so that it is not taken; and asking would put the read model into the way of every create.
func (s *session) load(ctx context.Context, sequence uint64, batch *event.RequestBatch) (known, error) {
	k := known{documents: make(map[string]*event.Document, len(batch.Requests)), outcomes: map[event.IdempotencyID]*event.Outcome{}}
	var full, heads, kept []string
	marks := map[string]uint64{}
	for _, r := range batch.Requests {
		if fold.IsKept(r) {
			id := event.IdempotencyID(r.IdempotencyId)
			if _, seen := k.outcomes[id]; !seen {
				k.outcomes[id] = s.mem.outcome(id)
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
		e, mark := s.mem.get(r.Item)
		if e != nil {
			k.documents[r.Item] = e.doc
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
	return k, s.attempt(ctx, "load", func(ctx context.Context) error { return s.loadMissing(ctx, k, m) })
}

// missing is what a message touches and memory does not have.
type missing struct {
	sequence          uint64 // of the message
	full, heads, kept []string
	marks             map[string]uint64
}

// loadMissing fills k with the state before the message: no older, and not from the future of this fold.
func (s *session) loadMissing(ctx context.Context, k known, m missing) error {
	if err := s.waitCurrent(ctx); err != nil {
		return err
	}
	found, newest := 0, uint64(0)
	load := func(collection string, ids []string, parts views.Parts, take func(views.Doc) error) error {
		return s.loadInto(ctx, collection, ids, parts, func(d views.Doc) error {
			found, newest = found+1, max(newest, d.Seq)
			return take(d)
		})
	}
	err := load(s.names.documents, m.full, views.Full, func(d views.Doc) error {
		doc, err := readDocument(d)
		if err == nil {
			k.documents[d.ID] = doc
			s.mem.fill(d.ID, newEntry(doc), m.marks[d.ID])
		}
		return err
	})
	if err != nil {
		return err
	}
	err = load(s.names.documents, m.heads, views.Heads, func(d views.Doc) error {
		doc, err := readDocument(d)
		k.documents[d.ID] = doc
		return err
	})
	if err != nil {
		return err
	}
	err = load(s.names.outcomes, m.kept, views.Heads, func(d views.Doc) error {
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
	// What is not there may have been deleted in the future, which its sequence can't tell.
	return s.checkAlone(ctx)
}

// loadCurrent loads documents that memory does not have, as they are.
func (s *session) loadCurrent(ctx context.Context, collection string, ids []string, parts views.Parts, take func(views.Doc) error) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.waitCurrent(ctx); err != nil {
		return err
	}
	return s.loadInto(ctx, collection, ids, parts, take)
}

func (s *session) loadInto(ctx context.Context, collection string, ids []string, parts views.Parts, take func(views.Doc) error) error {
	atOnce := views.MaxLoad
	if parts == views.Full {
		atOnce = loadChunk
	}
	for chunk := range slices.Chunk(ids, atOnce) {
		docs, err := s.e.deps.Views.Load(ctx, collection, chunk, parts)
		if err != nil {
			return fmt.Errorf("load %d from %s: %w", len(chunk), collection, err)
		}
		for _, d := range docs {
			if err := take(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitCurrent waits until the read model holds what this session has projected, which memory may have let go of.
// A server may, just after it was elected, show what was there before. It fails with errBehind where ctx ends
// first: the read model has lost something, and the session has to start again from what is left.
//
// It comes before the reads: one server never goes back in what it shows.
func (s *session) waitCurrent(ctx context.Context) error {
	projected := s.pending.projectedTo()
	for retry := newRetry(); ; {
		checkpoint, err := s.e.deps.Views.Checkpoint(ctx, s.stream)
		if err != nil {
			return fmt.Errorf("read checkpoint of %s: %w", s.stream, err)
		}
		if checkpoint >= projected {
			return nil
		}
		if retry.Wait(ctx); ctx.Err() != nil {
			return fmt.Errorf("%w: at %d, and %d before", errBehind, checkpoint, projected)
		}
	}
}

// checkAlone fails with errAhead where what was just loaded may come from a commit of somebody else,
// that is, from the future of this fold: the checkpoint would then have moved already.
func (s *session) checkAlone(ctx context.Context) error {
	checkpoint, err := s.e.deps.Views.Checkpoint(ctx, s.stream)
	if err != nil {
		return fmt.Errorf("read checkpoint of %s: %w", s.stream, err)
	}
	// In this order: a commit under way becomes the one that is projected. Each commit of this session
	// has found the checkpoint where the last one left it, so all up to there are this session's.
	if checkpoint != s.committing.Load() && checkpoint > s.pending.projectedTo() {
		return fmt.Errorf("%w: to %d", errAhead, checkpoint)
	}
	return nil
}

// decide folds the requests of a batch in order and fills m. It returns what billing has to be told,
// by billing partition.
func (s *session) decide(m *message, k known, batch *event.RequestBatch, now, stored int64) []*settlements {
	var groups []*settlements
	final := make(map[string]int, len(batch.Requests)) // the last write of each id
	put := func(w write) {
		if i, ok := final[w.id]; ok {
			if w.gone == nil {
				w.gone = m.writes[i].gone
			}
			m.writes[i] = w
			return
		}
		final[w.id] = len(m.writes)
		m.writes = append(m.writes, w)
	}
	for i, r := range batch.Requests {
		at := fold.Position{Sequence: m.sequence, Index: uint32(i), NowMS: now, StoredMS: stored}
		var kept *event.Outcome
		if fold.IsKept(r) {
			kept = k.outcomes[event.IdempotencyID(r.IdempotencyId)]
		}
		change, outcome := fold.Decide(s.e.cfg.Policy, k.documents[r.Item], kept, r, at)
		s.apply(k, r.Item, change, put)
		if fold.Keeps(r, outcome) {
			id := event.IdempotencyID(r.IdempotencyId)
			k.outcomes[id] = outcome
			m.outcomes = append(m.outcomes, keptOutcome{id: id, outcome: outcome})
			m.bytes += entryBytes + outcome.SizeVT()
		}
		told := fold.Settlements(r, outcome, change, m.sequence)
		if len(told) == 0 || fold.Served(outcome) && change.Storage.DeltaBytes == 0 {
			m.answers = append(m.answers, outcome)
		} else {
			m.late = append(m.late, outcome)
		}
		for _, t := range told {
			groups = addSettlement(groups, event.AccountPartition(event.AccountID(t.Account), s.e.cfg.PartitionCount), t)
		}
		s.e.metrics.decided(outcome.Status)
	}
	for _, w := range m.writes {
		m.bytes += w.entry.bytes
	}
	return groups
}

// apply carries a change over to what the rest of the batch sees, and to what is projected.
func (s *session) apply(k known, item string, c fold.Change, put func(write)) {
	if c.Version != nil {
		id := versionID(item, c.Version.Version)
		put(write{id: id, entry: newEntry(c.Version)})
	}
	switch {
	case c.Put != nil:
		k.documents[item] = c.Put
		put(write{id: item, entry: newEntry(c.Put)})
	case c.Delete:
		k.documents[item] = nil
		put(write{id: item, entry: newEntry(nil), gone: &gone{
			firstVersion: c.FirstVersion, lastVersion: c.LastVersion, blob: c.Blob, burned: c.Burned,
		}})
	}
}
