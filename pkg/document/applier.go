package document

import (
	"context"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/num"
	"quire.dev/pkg/wait"
)

// applier folds the journal of a partition. Its decisions are shown to readers at once, answered, settled with billing and
// projected. All fields but position belong to the goroutine that follows the journal.
type applier struct {
	*scope
	subject    string // of the messages to fold
	model      *readModel
	memory     *memory
	projection *projection
	lease      *lease
	answerer   *answerer
	settler    *settler
	position   wait.Position // of the messages that readers see
	state      *fold.State
}

func newApplier(s *scope, model *readModel, memory *memory, projection *projection, lease *lease) *applier {
	f := &applier{scope: s, subject: s.cfg.Policy.Domain.RequestSubject(s.number), model: model, memory: memory, projection: projection, lease: lease}
	f.answerer = newAnswerer(s, lease)
	f.settler = &settler{scope: s, answerer: f.answerer, projection: projection, appenders: map[int]*journal.Appender[*settlements]{}}
	return f
}

// handle folds one message: it shows the decisions to readers, sends the answers that are already safe, and leaves the rest to
// the settler and the projection. After an error the partition begins again.
func (f *applier) handle(ctx context.Context, m journal.Message) error {
	if err := f.projection.waitRoom(ctx); err != nil {
		return err
	}
	batch := &event.RequestBatch{}
	if m.Subject != f.subject {
		// NATS lets a user who may create a consumer have it deliver to any subject, including a journal's. The message then
		// keeps its original subject, to which its sender was allowed to publish.
		f.log.Error("a message with another journal's subject is skipped", "sequence", m.Sequence, "subject", m.Subject)
	} else if err := event.DecodeRequests(m.Data, batch); err != nil {
		// The message stays in the journal, its source is unknown, and a retry would fail too.
		f.log.Error("undecodable message is skipped", "sequence", m.Sequence, "error", err)
		batch = &event.RequestBatch{}
	}
	now, repeat := f.state.Enter(fold.Message{Sequence: m.Sequence, StoredMS: m.Time.UnixMilli(), Batch: batch})
	folded := &message{sequence: m.Sequence, source: batch.Source, number: batch.Number, quiet: batch.Source == "" && len(batch.Requests) == 0}
	if batch.Lease != nil {
		granted := f.state.Grant(batch.Lease)
		f.lease.apply(batch.Lease, granted, f.state.Lease())
	}
	if repeat {
		f.queue(folded, nil)
		f.answerer.repeat(batch)
		return nil
	}
	begun := f.beginSpans(folded, m, batch)
	known, err := f.load(ctx, m.Sequence, batch)
	if err != nil {
		return err
	}
	folded.spans.Part("load", begun)
	groups := f.decide(folded, known, batch, now, m.Time.UnixMilli()+batch.OffsetMs)
	// Earlier versions go first: a reader that sees a document finds all of its versions.
	for _, first := range [...]bool{true, false} {
		for _, w := range folded.writes {
			if isVersionID(w.id) == first {
				f.memory.publish(w.id, w.entry)
			}
		}
	}
	for _, k := range folded.outcomes {
		f.memory.publishOutcome(k.id, k.outcome)
	}
	f.queue(folded, groups)
	f.answerer.answer(folded, folded.answers)
	folded.endSpans()
	f.answerer.remember(folded, f.state)
	for i := range groups {
		if err := f.settler.settle(ctx, &groups[i]); err != nil {
			return err
		}
	}
	return nil
}

// queue passes the message to the projection. It precedes the answers: a list that follows an answer waits for the projection of
// what is queued.
func (f *applier) queue(m *message, groups []settlements) {
	m.state = f.state.Snapshot()
	m.unsettled.Store(num.Int32(len(groups)))
	for i := range groups {
		groups[i].message = m
	}
	f.projection.push(m)
	f.metrics.messages.Inc()
	f.position.Set(m.sequence)
}

// decision is the result of one request. The decisions of a message are allocated together and live as long as it.
type decision struct {
	outcome    event.Outcome
	settlement event.Settlement
}

// decide folds the requests of a batch in order and fills m. It returns the settlements by partition of billing.
func (f *applier) decide(m *message, k known, batch *event.RequestBatch, now, stored int64) []settlements {
	var groups []settlements
	decisions := make([]decision, len(batch.Requests))
	m.answers = make([]*event.Outcome, 0, len(batch.Requests))
	m.writes = make([]write, 0, len(batch.Requests))
	final := make(map[string]int, len(batch.Requests)) // index of the last write of each id
	put := func(w write) {
		if i, ok := final[w.id]; ok {
			if w.deletion == nil {
				w.deletion = m.writes[i].deletion
			}
			w.created = m.writes[i].created
			m.writes[i] = w
			return
		}
		final[w.id] = len(m.writes)
		m.writes = append(m.writes, w)
	}
	var settled []*event.Settlement // of one request
	for i, r := range batch.Requests {
		at := fold.Position{Sequence: m.sequence, Index: uint32(i), NowMS: now, StoredMS: stored}
		var kept *event.Outcome
		outcome := &decisions[i].outcome
		if fold.IsKept(r) {
			kept = k.outcomes[event.IdempotencyID(r.IdempotencyId)]
			outcome = &event.Outcome{} // outlives the message
		}
		change := fold.Decide(f.cfg.Policy, k.documents[r.Item], kept, r, at, outcome)
		apply(k, r.Item, change, put)
		if fold.Keeps(r, outcome) {
			id := event.IdempotencyID(r.IdempotencyId)
			k.outcomes[id] = outcome
			m.outcomes = append(m.outcomes, keptOutcome{id: id, outcome: outcome})
			m.bytes += entryBytes + outcome.SizeVT()
		}
		settled = fold.Settlements(settled[:0], &decisions[i].settlement, r, outcome, change, m.sequence)
		if len(settled) == 0 || fold.Served(outcome) && change.Storage.DeltaBytes == 0 {
			m.answers = append(m.answers, outcome)
		} else {
			m.lateAnswers = append(m.lateAnswers, outcome)
		}
		for _, t := range settled {
			t.StoredMs = stored - batch.OffsetMs
			groups = addSettlement(groups, event.AccountPartition(event.AccountID(t.Account), f.cfg.PartitionCount), t, len(batch.Requests))
		}
		f.metrics.countOutcome(outcome.Status)
	}
	for _, w := range m.writes {
		m.bytes += w.entry.bytes
	}
	return groups
}

// apply shows a change to the rest of the batch, and appends it to the writes.
func apply(k known, item string, c fold.Change, put func(write)) {
	if c.Version != nil {
		put(write{id: versionID(item, c.Version.Version), entry: k.entryOf(item, c.Version)})
	}
	switch {
	case c.Put != nil:
		created := k.documents[item] == nil
		k.documents[item] = c.Put
		put(write{id: item, entry: k.entryOf(item, c.Put), created: created})
	case c.Delete:
		k.documents[item] = nil
		put(write{id: item, entry: newEntry(nil), deletion: &deletion{
			firstVersion: c.FirstVersion, lastVersion: c.LastVersion, blob: c.Blob, burned: c.Burned,
		}})
	}
}
