package document

import (
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/trace"
)

// maxTracedAge is the age of a message after which its traced requests are not recorded: it is folded again.
const maxTracedAge = time.Minute

// beginSpans begins the spans of the folds of the message's traced requests, and records their wait for the journal. It returns when
// the folds begin.
func (f *applier) beginSpans(to *message, m journal.Message, batch *event.RequestBatch) time.Time {
	if f.deps.Traces == nil || len(m.Header) == 0 {
		return time.Time{}
	}
	begun, domain := time.Now(), string(f.cfg.Policy.Domain)
	if begun.Sub(m.Time) > maxTracedAge {
		return time.Time{}
	}
	trace.In(m.Header, func(offset int, traceparent string) {
		if offset >= len(batch.Requests) {
			return
		}
		id, err := event.RequestIDFrom(batch.Requests[offset].RequestId)
		if err != nil {
			return
		}
		attrs := []trace.Attr{trace.Request(id), trace.Text("quire.stream", f.stream), trace.Number("quire.sequence", m.Sequence)}
		if span := f.deps.Traces.Fold(domain, traceparent, m.Time, begun, attrs...); span != nil {
			to.spans = append(to.spans, span)
		}
	})
	return begun
}

// endSpans ends the folds. What follows, the settlements and the commit, are parts that last longer.
func (m *message) endSpans() {
	if len(m.spans) == 0 {
		return
	}
	m.decided = time.Now()
	m.spans.End(m.decided)
}

// beginRead begins the span of a read; nil if it is not traced.
func (s *scope) beginRead(read *event.Read) *trace.Span {
	if read.Traceparent == "" || s.deps.Traces == nil {
		return nil
	}
	return s.deps.Traces.Continue(string(s.cfg.Policy.Domain)+" read", read.Traceparent, time.Now())
}
