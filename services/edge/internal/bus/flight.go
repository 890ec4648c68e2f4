package bus

import "time"

// flight is a batch that left and is not answered completely.
type flight[T, A any] struct {
	number   uint64
	data     []byte
	left     time.Time
	asked    time.Duration // when it was last published, by Bus.elapsed
	stored   bool
	items    []*item[T, A] // by position; nil: answered
	open     int           // those that are not
	resolved chan struct{} // closed when the flight is removed
}

// acked runs on the appender's goroutine: until it returns, the next batch does not leave.
func (l *lane[T, A]) acked(items []*item[T, A], number, _ uint64) {
	l.bus.metrics.batches.WithLabelValues(l.kind).Inc()
	for _, it := range items {
		if it.settlement {
			l.end(it, nil)
		}
	}
	l.mu.Lock()
	f := l.flights[number]
	if f != nil {
		f.stored, f.asked = true, l.bus.elapsed()
		if f.open == 0 {
			delete(l.flights, number)
			f = nil
		}
	}
	l.mu.Unlock()
	if f != nil && l.gated {
		<-f.resolved // by the answer, or by sweep when nobody waits for it any more
	}
}

// answered takes the answer to a whole batch, by position; false where it does not fit the batch.
func (l *lane[T, A]) answered(number uint64, count int, set func(i int, value *T, answer *A)) bool {
	l.mu.Lock()
	f := l.flights[number]
	if f == nil {
		l.mu.Unlock()
		return true // answered before, by the twin or to an earlier sending
	}
	if count != len(f.items) {
		l.mu.Unlock()
		return false
	}
	delete(l.flights, number)
	l.confirmed = max(l.confirmed, number)
	l.mu.Unlock()
	l.appender.Confirm(number)
	l.landed(f)
	for i, it := range f.items {
		l.deliver(it, i, set)
	}
	return true
}

func (l *lane[T, A]) landed(f *flight[T, A]) {
	close(f.resolved)
	l.bus.metrics.latency.WithLabelValues(l.kind).Observe(time.Since(f.left).Seconds())
}

// deliver gives an item its answer; where its waiter has gone, it is an orphan.
func (l *lane[T, A]) deliver(it *item[T, A], i int, set func(i int, value *T, answer *A)) {
	if it.claim() {
		set(i, &it.value, &it.answer)
		l.finish(it, nil)
		return
	}
	if l.orphan != nil {
		var answer A
		set(i, &it.value, &answer)
		l.orphan(it.value, &answer)
	}
}

// part takes the answer to one item of a batch, which may be answered in several messages.
func (l *lane[T, A]) part(number uint64, index int, set func(i int, value *T, answer *A)) bool {
	l.mu.Lock()
	f := l.flights[number]
	if f == nil {
		l.mu.Unlock()
		return true
	}
	if index < 0 || index >= len(f.items) {
		l.mu.Unlock()
		return false
	}
	it := f.items[index]
	if it != nil {
		f.items[index] = nil
		f.open--
	}
	last := f.open == 0
	if last {
		delete(l.flights, number)
	}
	l.confirmed = max(l.confirmed, number)
	l.mu.Unlock()
	l.appender.Confirm(number)
	if last {
		l.landed(f)
	}
	if it != nil {
		l.deliver(it, index, set)
	}
	return true
}
