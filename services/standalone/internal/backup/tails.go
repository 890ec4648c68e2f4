package backup

import (
	"context"
	"slices"
	"strings"
	"sync"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
)

// tails is what the ends of the journals say.
type tails struct {
	needs    map[string][]need
	admitted map[event.RequestID]need // where a request was admitted
	erased   map[uint64]need          // where an account was erased
}

// readTails reads the journals after lower, up to their ends. Those of billing are read further, up to their present ends: every
// admission of a document before an end is there.
func (w *work) readTails(ctx context.Context, lower, ends map[string]uint64) (*tails, error) {
	t := &tails{needs: map[string][]need{}, admitted: map[event.RequestID]need{}, erased: map[uint64]need{}}
	last, err := w.ends(ctx, event.Billing)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	read := func(to map[string]uint64, take func(stream, journal.Message)) func(context.Context, stream) error {
		return func(ctx context.Context, s stream) error {
			return w.journals[s.name].Replay(ctx, lower[s.name], to[s.name], func(m journal.Message) error {
				mu.Lock()
				defer mu.Unlock()
				take(s, m)
				return nil
			}, nil)
		}
	}
	if err := w.eachStream(ctx, []event.Domain{event.Billing}, read(last, t.billing)); err != nil {
		return nil, err
	}
	return t, w.eachStream(ctx, event.Documents(), read(ends, t.document))
}

// billing reads a message of billing. What can't be decoded has no effect there.
func (t *tails) billing(s stream, m journal.Message) {
	here := need{stream: s.name, at: m.Sequence}
	switch m.Subject {
	case event.UsageSubject(s.partition):
		var batch event.UsageBatch
		if event.Decode(m.Data, &batch) != nil {
			return
		}
		for _, a := range batch.Admissions {
			if len(a.RequestId) != len(event.RequestID{}) {
				continue
			}
			id := event.RequestID(a.RequestId)
			if _, known := t.admitted[id]; !known { // a batch is counted once, however often it was sent
				t.admitted[id] = here
			}
		}
	case event.AccountSubject(s.partition):
		var batch event.CommandBatch
		if event.Decode(m.Data, &batch) != nil {
			return
		}
		for _, c := range batch.Commands {
			if c.GetEraseAccount() != nil {
				t.erased[c.Account] = here
			}
		}
	default:
		batch := settlementsOf(s, m)
		for _, settled := range batch.GetSettlements() {
			t.needs[s.name] = append(t.needs[s.name], need{sequence: m.Sequence, stream: batch.Source, at: settled.Sequence})
		}
	}
}

// document reads a message of a document journal.
func (t *tails) document(s stream, m journal.Message) {
	for _, r := range requestsOf(s, m) {
		var needed need
		switch {
		case r.Charge != nil && len(r.RequestId) == len(event.RequestID{}):
			needed = t.admitted[event.RequestID(r.RequestId)]
		case r.Charge == nil && r.GetDelete() != nil:
			needed = t.erased[r.Account]
		}
		if needed.at > 0 {
			needed.sequence = m.Sequence
			t.needs[s.name] = append(t.needs[s.name], needed)
		}
	}
}

// requestsOf returns the requests of a message of a document journal, as its service reads it.
func requestsOf(s stream, m journal.Message) []*event.Request {
	var batch event.RequestBatch
	if m.Subject != s.domain.RequestSubject(s.partition) || event.DecodeRequests(m.Data, &batch) != nil {
		return nil
	}
	return batch.Requests
}

// settlementsOf returns the batch of a document service in a message of billing, or nil.
func settlementsOf(s stream, m journal.Message) *event.UsageBatch {
	domain := strings.TrimPrefix(m.Subject, strings.TrimSuffix(event.Paste.SettleSubject(s.partition), string(event.Paste)))
	if !slices.Contains(event.Documents(), event.Domain(domain)) || event.Domain(domain).SettleSubject(s.partition) != m.Subject {
		return nil
	}
	batch := &event.UsageBatch{}
	if event.Decode(m.Data, batch) != nil || !strings.HasPrefix(batch.Source, strings.TrimSuffix(event.Domain(domain).Stream(0), "0")) {
		return nil
	}
	return batch
}
