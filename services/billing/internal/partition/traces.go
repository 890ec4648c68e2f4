package partition

import (
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/trace"
)

// foldBegins is when the fold of a message with traced requests begins; zero for others.
func (p *Partition) foldBegins(m journal.Message) time.Time {
	if p.deps.Traces == nil || len(m.Header) == 0 {
		return time.Time{}
	}
	return time.Now()
}

// traceFold records what a message's traced requests waited for: the journal, and the fold, until the answer was sent. begun is of
// foldBegins.
func (p *Partition) traceFold(m journal.Message, begun time.Time) {
	if begun.IsZero() || m.Subject != event.UsageSubject(p.cfg.Partition) {
		return
	}
	answered := time.Now()
	batch := &event.UsageBatch{}
	if event.Decode(m.Data, batch) != nil { // the fold has logged that
		return
	}
	trace.In(m.Header, func(offset int, traceparent string) {
		if offset >= len(batch.Admissions) {
			return
		}
		id, err := event.RequestIDFrom(batch.Admissions[offset].RequestId)
		if err != nil {
			return
		}
		attrs := []trace.Attr{
			trace.Request(id), trace.Text("quire.stream", p.stream), trace.Number("quire.sequence", m.Sequence), trace.Text("quire.instance", p.cfg.Instance),
		}
		p.deps.Traces.Fold("billing", traceparent, m.Time, begun, attrs...).End(answered)
	})
}
