package document

import (
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

const (
	recentBytes   = 8 << 20 // answers of a larger batch are not kept to be sent again
	recentSources = 1024    // sources to remember before those that the fold has forgotten are dropped
)

// answerer sends outcomes to the edges that wait for them.
type answerer struct {
	*scope
	recent map[string]*message // last message of each source, to be answered again; of the goroutine that folds
}

// answer sends outcomes of a message in messages of bounded size. A lost one costs the edge a repetition of its batch,
// or its client a 504, but never the effect.
func (a *answerer) answer(m *message, outcomes []*event.Outcome) {
	if m.source == "" || len(outcomes) == 0 {
		return
	}
	subject := a.cfg.Policy.Domain.OutcomeSubject(m.source)
	for len(outcomes) > 0 {
		n, bytes := 0, 0
		for n < len(outcomes) {
			bytes += outcomes[n].SizeVT()
			if n > 0 && bytes > a.cfg.Bounds.AnswerBytes {
				break
			}
			n++
		}
		data, err := event.Encode(&event.OutcomeBatch{Source: m.source, Number: m.number, Sequence: m.sequence, Outcomes: outcomes[:n]})
		if err == nil {
			err = a.deps.NC.Publish(subject, data)
		}
		if err != nil {
			a.log.Warn("outcomes were not sent", "sequence", m.sequence, "error", err)
		}
		outcomes = outcomes[n:]
	}
}

// remember keeps the answers to the last batch of a source.
func (a *answerer) remember(m *message, state *fold.State) {
	if m.source == "" || m.number == 0 {
		return
	}
	bytes := 0
	for _, o := range m.answers {
		bytes += o.SizeVT()
	}
	if bytes > recentBytes {
		delete(a.recent, m.source)
		return
	}
	a.recent[m.source] = m
	if len(a.recent) <= recentSources {
		return
	}
	alive := map[string]bool{}
	for _, known := range state.Snapshot().Sources {
		alive[known.Source] = true
	}
	for source := range a.recent {
		if !alive[source] {
			delete(a.recent, source)
		}
	}
}

// repeat answers a batch that came twice with the answers of the first time. Requests that are not settled yet are
// answered when they are.
func (a *answerer) repeat(batch *event.RequestBatch) {
	m := a.recent[batch.Source]
	if m == nil || m.number != batch.Number {
		return
	}
	a.answer(m, m.answers)
	if m.settled() {
		a.answer(m, m.lateAnswers)
	}
}
