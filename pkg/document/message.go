package document

import (
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/trace"
)

// message is one folded journal message.
type message struct {
	sequence uint64
	source   string
	number   uint64 // of the batch, by its source
	writes   []write
	outcomes []keptOutcome
	state    *event.DomainState // after it
	bytes    int                // approximate size of writes and outcomes
	quiet    bool               // decides nothing

	answers     []*event.Outcome // safe to send as soon as the message is folded
	lateAnswers []*event.Outcome // safe to send once it is settled

	unsettled atomic.Int32 // groups of settlements not in billing's journal yet

	spans   trace.Spans // of the folds of its traced requests
	decided time.Time   // zero without spans
}

func (m *message) settled() bool { return m.unsettled.Load() == 0 }

// write is a document, or an earlier version of one, to project.
type write struct {
	id       string
	entry    *entry
	deletion *deletion // nil if the document still exists
	created  bool      // the read model has never held it
}

// deletion names what must be deleted together with a document.
type deletion struct {
	firstVersion, lastVersion uint64
	blob                      string
	burned                    bool
}

type keptOutcome struct {
	id      event.IdempotencyID
	outcome *event.Outcome
}
