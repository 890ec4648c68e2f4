package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/journal"
	"quire.dev/pkg/trace"
)

// The states of an item. An item abandoned while it is queued is never published.
const (
	queued uint32 = iota
	sent          // in a batch that is published or about to be
	over          // answered, failed or abandoned
)

// item is a value that waits to be stored in its journal, and then for its answer.
type item[T, A any] struct {
	value T
	// settlement: the item is done once stored. It gets no answer and can't be abandoned.
	settlement bool
	expires    time.Duration // by Bus.elapsed
	state      atomic.Uint32
	left       atomic.Int64               // when its batch left, by Bus.elapsed; 0: not yet
	stored     atomic.Int64               // when the journal had its batch; 0: not known
	span       *trace.Span                // of its wait; nil: it is not traced
	batch      atomic.Pointer[trace.Span] // nil: unknown
	done       chan struct{}              // receives once answer and err are set; nil if nobody waits
	tokens     chan struct{}              // the item takes one out when it is over; may be nil
	answer     A
	err        error
}

// lane publishes items to one subject of a journal and takes their answers. Items leave in batches, one batch at
// a time. An answer finds its item by the batch's number and its offset in the batch.
type lane[T, A any] struct {
	laneConfig[T, A]
	appender *journal.Appender[*item[T, A]]
	open     atomic.Int64 // items that wait for an answer
	stuck    atomic.Bool  // settlements of a failed batch are being stored; new items are refused

	// Used by the appender's goroutine only.
	stopping context.Context // of Run
	lost     int             // settlements that could not be stored

	mu        sync.Mutex
	fifo      []*item[T, A] // in the order of their deadlines; some may be over
	flights   map[uint64]*flight[T, A]
	newest    uint64 // number of the last batch that left
	confirmed uint64 // number of the last batch that got an answer
}

type laneConfig[T, A any] struct {
	bus     *Bus
	journal *journalWatch
	kind    string // in metrics and logs
	subject string
	timeout time.Duration
	// gated: the next batch waits for the answers to the last one. The fold keeps only the answers to the last
	// batch of a source, so lost answers to an older one could not be asked for again. On one machine that
	// costs nothing: the batches get larger.
	gated bool
	// queueBytes bounds the waiting items, in bytes as encoded.
	queueBytes int
	linger     time.Duration // of settlements that nobody waits for
	encode     func(number uint64, items []*item[T, A]) ([]byte, error)
	size       func(value T) int
	// orphan is called for a published item whose caller has gone. answer is nil if it is not known. orphan may
	// be nil.
	orphan func(value T, answer *A)
}

func newLane[T, A any](cfg laneConfig[T, A]) (*lane[T, A], error) {
	l := &lane[T, A]{laneConfig: cfg, flights: map[uint64]*flight[T, A]{}, stopping: context.Background()}
	// open bounds the items that want an answer, and tokens bound the settlements. The appender must not refuse
	// a settlement.
	const never = 1 << 30
	var err error
	l.appender, err = journal.NewAppender(cfg.bus.nc, journal.Config[*item[T, A]]{
		Subject:       cfg.subject,
		MaxQueue:      never,
		MaxQueueBytes: cfg.queueBytes,
		// The appender gives up before the items expire, so that callers learn that nothing was published.
		MaxWait:   cfg.timeout / 5 * 4,
		AckWait:   cfg.bus.cfg.ResendAfter,
		Linger:    cfg.linger,
		DrainWait: cfg.bus.cfg.DrainTimeout,
		Encode:    l.depart,
		Size:      func(it *item[T, A]) int { return cfg.size(it.value) },
		Header:    l.headerOf,
		Acked:     l.onStored,
		Failed:    l.onFailure,
		Files:     cfg.bus.cfg.Shared.Files,
		Metrics:   cfg.bus.metrics.journals,
		Logger:    cfg.bus.cfg.Logger,
	})
	return l, err
}

func (l *lane[T, A]) run(ctx context.Context) error {
	l.stopping = ctx
	err := l.appender.Run(ctx)
	if l.lost > 0 {
		err = errors.Join(err, fmt.Errorf("%d settlements to %s were not stored", l.lost, l.subject))
	}
	return err
}

// isWaiting tells whether an item waits for its answer.
func (l *lane[T, A]) isWaiting() bool { return l.open.Load() > 0 }

// do queues an item and waits for its answer.
func (l *lane[T, A]) do(ctx context.Context, it *item[T, A]) (A, error) {
	l.start(it)
	err := l.wait(ctx, it)
	return it.answer, err
}

// start queues an item that wants an answer. It never blocks. wait must follow.
func (l *lane[T, A]) start(it *item[T, A]) {
	it.done = l.bus.signals.Get().(chan struct{})
	it.expires = l.bus.elapsed() + l.timeout
	if l.open.Add(1) > int64(l.bus.cfg.MaxWaiting) {
		l.end(it, unavailable(errQueue))
		return
	}
	if l.journal.closed.Load() {
		l.end(it, unavailable(errClosed))
		return
	}
	if l.stuck.Load() {
		l.end(it, unavailable(errStuck))
		return
	}
	l.mu.Lock()
	l.fifo = append(l.fifo, it)
	l.mu.Unlock()
	if err := l.appender.Add(it); err != nil {
		l.end(it, appendFault(err))
	}
}

// wait returns when a started item is over. If ctx ends first, it gives the item up. To wait once more returns the same.
func (l *lane[T, A]) wait(ctx context.Context, it *item[T, A]) error {
	done := it.done
	if done == nil {
		return it.err
	}
	select {
	case <-done:
	case <-ctx.Done():
		l.abandon(ctx, it)
		<-done // a send may be in progress
	}
	it.done = nil
	l.bus.signals.Put(done) // empty: finish sends once
	return it.err
}

// abandon gives up on an item because ctx has ended.
func (l *lane[T, A]) abandon(ctx context.Context, it *item[T, A]) {
	if it.state.CompareAndSwap(queued, over) {
		l.finish(it, contextFault(ctx, false))
	} else if it.state.CompareAndSwap(sent, over) {
		l.finish(it, contextFault(ctx, true))
	}
}

// claim reports whether the caller may end the item. If so, it must call finish.
func (it *item[T, A]) claim() bool { return it.state.Swap(over) != over }

func (l *lane[T, A]) end(it *item[T, A], err error) {
	if it.claim() {
		l.finish(it, err)
	}
}

func (l *lane[T, A]) finish(it *item[T, A], err error) {
	it.err = err
	if !it.settlement {
		l.open.Add(-1)
	}
	if it.done != nil {
		it.done <- struct{}{}
	}
	if it.tokens != nil {
		<-it.tokens
	}
}

// depart encodes a batch for the appender, without abandoned items.
func (l *lane[T, A]) depart(number uint64, items []*item[T, A]) ([]byte, error) {
	l.recall(number)
	f := &flight[T, A]{number: number, items: make([]*item[T, A], 0, len(items)), resolved: make(chan struct{})}
	leaving := make([]*item[T, A], 0, len(items))
	for _, it := range items {
		switch {
		case it.settlement:
		case it.state.CompareAndSwap(queued, sent):
			f.items = append(f.items, it)
		default:
			continue
		}
		leaving = append(leaving, it)
	}
	var err error
	if f.data, err = l.encode(number, leaving); err != nil {
		return nil, fmt.Errorf("encode batch to %s: %w", l.subject, err)
	}
	f.open, f.left = len(f.items), l.bus.elapsed()
	for _, it := range f.items {
		it.left.Store(int64(f.left))
	}
	if l.bus.cfg.Traces != nil {
		l.traceBatch(f, len(leaving))
	}
	l.mu.Lock()
	l.flights[number] = f
	l.newest = number
	l.mu.Unlock()
	l.bus.metrics.items.WithLabelValues(l.kind).Observe(float64(len(leaving)))
	return f.data, nil
}

// traceBatch begins the span of a batch with traced items, and names their spans in its header, for the folds. leaving is the number
// of all items.
func (l *lane[T, A]) traceBatch(f *flight[T, A], leaving int) {
	var spans []*trace.Span
	for offset, it := range f.items {
		if it.span != nil {
			spans = append(spans, it.span)
			f.traces.Add(offset, it.span)
		}
	}
	f.span = l.bus.cfg.Traces.Batch("batch", l.bus.started.Add(f.left), spans, trace.Text("messaging.destination.name", l.subject),
		trace.Number("messaging.batch.message_count", leaving), trace.Number("quire.batch", f.number))
	for _, it := range f.items {
		if it.span != nil {
			it.batch.Store(f.span)
		}
	}
}

// headerOf is the header of the batch that was encoded last.
func (l *lane[T, A]) headerOf(number uint64) nats.Header {
	if l.bus.cfg.Traces == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flights[number]; f != nil {
		return f.traces.Header()
	}
	return nil
}

// recall undoes a depart with the same number whose batch was too large for one message.
func (l *lane[T, A]) recall(number uint64) {
	l.mu.Lock()
	f := l.flights[number]
	delete(l.flights, number)
	l.mu.Unlock()
	if f == nil {
		return
	}
	for _, it := range f.items {
		it.state.CompareAndSwap(sent, queued)
	}
}
