package bus

import (
	"time"

	"quire.dev/pkg/trace"
)

// Timing has the parts of a request's time that it spent in the bus. The zero value is ready. It belongs to the goroutine of the
// request; the bus changes it only while that waits.
type Timing struct {
	Admit Wait          // for the verdict, of all attempts
	Write Wait          // for the outcome of a write
	Blob  time.Duration // in the blob store, before the answer began
	Read  time.Duration // for the answers to reads, from their beginning; a read runs beside its admission

	Span *trace.Span // of the request; nil: it is not traced
}

// Wait is the time until a batch's answer, part by part.
type Wait struct {
	Queue time.Duration // until the batch was sent: it waits for the previous batch
	Sync  time.Duration // until the journal had stored the batch; all of it if the answer came before the acknowledgment
	Fold  time.Duration // until the answer was there
}

// Total is the sum of the parts.
func (w Wait) Total() time.Duration { return w.Queue + w.Sync + w.Fold }

// child begins the span of a wait.
func (t *Timing) child(name string) *trace.Span {
	if t == nil || t.Span == nil {
		return nil
	}
	return t.Span.Child(name, time.Now())
}

// waited adds the parts of an item's time since it was started, when its wait has ended, and records them as spans.
func (l *lane[T, A]) waited(it *item[T, A], to *Wait) {
	started, end := it.expires-l.timeout, l.bus.elapsed()
	left, stored := time.Duration(it.left.Load()), time.Duration(it.stored.Load())
	if left == 0 {
		left = end
	}
	if stored == 0 {
		stored = end
	}
	left = max(left, started)
	stored = max(stored, left)
	end = max(end, stored)
	to.Queue, to.Sync, to.Fold = to.Queue+left-started, to.Sync+stored-left, to.Fold+end-stored
	if it.span == nil {
		return
	}
	at := l.bus.started.Add
	it.span.Part("queue", at(started), at(left))
	if it.left.Load() != 0 {
		it.span.PartOf(it.batch.Load(), "sync", at(left), at(stored))
		it.span.Part("fold", at(stored), at(end))
	}
	it.span.End(at(end))
}
