package bus

import (
	"fmt"
	"time"

	"quire.dev/pkg/trace"
)

// flight is a batch that is published or about to be, with answers outstanding.
type flight[T, A any] struct {
	number   uint64
	data     []byte
	left     time.Duration // by Bus.elapsed
	asked    time.Duration // when it was last published, likewise
	stored   bool
	items    []*item[T, A] // by offset in the batch; nil once answered
	open     int           // number of unanswered items
	resolved chan struct{} // closed when the flight is removed
	traces   trace.Headers
	span     *trace.Span // nil: no item is traced
}

// onStored ends the settlements of a stored batch. It runs on the appender's goroutine, and the next batch does not leave until
// it returns.
func (l *lane[T, A]) onStored(items []*item[T, A], number, _ uint64) {
	l.bus.metrics.batches.WithLabelValues(l.kind).Inc()
	l.journal.stored.Store(true)
	for _, it := range items {
		if it.settlement {
			l.end(it, nil)
		}
	}
	l.mu.Lock()
	f := l.flights[number]
	if f != nil {
		f.stored, f.asked = true, l.bus.elapsed()
		for _, it := range f.items {
			if it != nil {
				it.stored.Store(int64(f.asked))
			}
		}
		f.span.Part("sync", l.bus.started.Add(f.left), l.bus.started.Add(f.asked))
		if f.open == 0 {
			delete(l.flights, number)
			f = nil
		}
	}
	l.mu.Unlock()
	if f != nil && l.gated {
		<-f.resolved // by the answer, or by sweep once nobody waits for it
	}
}

// resolve handles count answers to a batch. Answer i belongs to the item at offset(i), or at i if offset is nil; set
// copies it to the item. A batch no longer in flight was answered before, by another replica or after an earlier sending.
// Answers that do not fit the batch return errAnswer.
func (l *lane[T, A]) resolve(number uint64, count int, offset func(i int) int, set func(i int, value *T, answer *A)) error {
	l.mu.Lock()
	f := l.flights[number]
	if f == nil {
		l.mu.Unlock()
		return nil
	}
	taken, err := f.take(count, offset)
	if f.open == 0 && err == nil {
		delete(l.flights, number)
	} else {
		f = nil
	}
	l.confirmed = max(l.confirmed, number)
	l.mu.Unlock()
	l.appender.Confirm(number)
	if f != nil {
		close(f.resolved)
		f.span.End(time.Now())
		l.bus.metrics.latency.WithLabelValues(l.kind).Observe((l.bus.elapsed() - f.left).Seconds())
	}
	for i, it := range taken {
		if it != nil {
			l.deliver(it, func(value *T, answer *A) { set(i, value, answer) })
		}
	}
	return err
}

// take removes answered items from the flight and returns them; nil for an item answered before.
func (f *flight[T, A]) take(count int, offset func(i int) int) (taken []*item[T, A], err error) {
	if offset == nil {
		if count != len(f.items) {
			return nil, fmt.Errorf("%d answers to the %d items of batch %d: %w", count, len(f.items), f.number, errAnswer)
		}
		offset = func(i int) int { return i }
	}
	taken = make([]*item[T, A], 0, count)
	for i := range count {
		at := offset(i)
		if at < 0 || at >= len(f.items) {
			return taken, fmt.Errorf("answer to item %d of the %d of batch %d: %w", at, len(f.items), f.number, errAnswer)
		}
		taken = append(taken, f.items[at])
		if f.items[at] != nil {
			f.items[at] = nil
			f.open--
		}
	}
	return taken, nil
}

// deliver gives an item its answer. An item whose caller has left is an orphan.
func (l *lane[T, A]) deliver(it *item[T, A], set func(value *T, answer *A)) {
	if it.claim() {
		set(&it.value, &it.answer)
		l.finish(it, nil)
		return
	}
	if l.orphan != nil {
		var answer A
		set(&it.value, &answer)
		l.orphan(it.value, &answer)
	}
}

// drop ends a flight without further answers. stored means that the journal may contain the batch: all unanswered items
// are then orphans.
func (l *lane[T, A]) drop(f *flight[T, A], stored bool) {
	close(f.resolved)
	f.span.Fail("unanswered")
	f.span.End(time.Now())
	if !stored || l.orphan == nil {
		return
	}
	for _, it := range f.items {
		if it != nil {
			l.orphan(it.value, nil)
		}
	}
}
