package document

import (
	"context"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

const (
	recentBytes   = 8 << 20 // answers to a larger batch are not kept for repeats
	recentSources = 1024    // sources to remember before pruning those that the fold has forgotten

	// Bounds of answers held back during another reader's lease. That reader has usually sent the same ones.
	heldBytes   = 16 << 20
	heldAnswers = 4096
	heldFor     = 15 * time.Second // no edge waits longer for an outcome
)

// answerer sends outcomes to the waiting edges, once no other replica can answer a read from an earlier state.
type answerer struct {
	*scope
	lease  *lease
	recent map[string]*message // last message of each source, to answer repeats; owned by the applier

	mu    sync.Mutex
	held  []heldAnswer // oldest first
	bytes int          // of held
	wake  chan struct{}
}

// heldAnswer is an answer held back during another reader's lease.
type heldAnswer struct {
	message  *message
	outcomes []*event.Outcome
	bytes    int
	since    time.Duration // by the lease's clock
}

func newAnswerer(s *scope, lease *lease) *answerer {
	return &answerer{scope: s, lease: lease, recent: map[string]*message{}, wake: make(chan struct{}, 1)}
}

// answer sends a message's outcomes, now or once they may be shown.
func (a *answerer) answer(m *message, outcomes []*event.Outcome) {
	switch {
	case m.source == "" || len(outcomes) == 0:
	case a.lease.isBarred():
		a.hold(m, outcomes)
	default:
		a.send(m, outcomes)
	}
}

// hold keeps outcomes until run sends them. At the bounds it drops the oldest.
func (a *answerer) hold(m *message, outcomes []*event.Outcome) {
	h := heldAnswer{message: m, outcomes: outcomes, since: a.lease.elapsed()}
	for _, o := range outcomes {
		h.bytes += o.SizeVT()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held, a.bytes = append(a.held, h), a.bytes+h.bytes
	drop := 0
	for drop < len(a.held) && (len(a.held)-drop > heldAnswers || a.bytes > heldBytes || h.since-a.held[drop].since > heldFor) {
		a.bytes -= a.held[drop].bytes
		drop++
	}
	a.held = slices.Delete(a.held, 0, drop)
	signal(a.wake)
}

// run sends held outcomes as soon as they may be shown, until ctx ends. Then it returns nil.
func (a *answerer) run(ctx context.Context) error {
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return nil
		}
		if !a.lease.untilFree(ctx) {
			return nil
		}
		a.mu.Lock()
		held := a.held
		a.held, a.bytes = nil, 0
		a.mu.Unlock()
		for _, h := range held {
			a.answer(h.message, h.outcomes) // held again if another reader has got a lease meanwhile
		}
	}
}

// send sends a message's outcomes in messages of bounded size. A lost one makes the edge repeat its batch, or its client get a
// 504, but never loses the effect.
func (a *answerer) send(m *message, outcomes []*event.Outcome) {
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
			err = a.deps.Shared.Answers.Publish(a.deps.NC, subject, data)
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

// repeat answers a repeated batch with the earlier answers. Requests that are not settled yet are answered once they are.
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
