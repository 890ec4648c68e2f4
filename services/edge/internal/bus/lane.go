package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/journal"
)

// The states of an item. It leaves only from waiting, so that one whose waiter went away in time
// is certain never to be published.
const (
	waiting uint32 = iota
	sent           // in a batch that was published, or is about to be
	over           // answered, failed, or given up
)

// item is one thing that waits for its journal, and then for its answer.
type item[T, A any] struct {
	value   T
	stored  bool          // it is over when it is stored: no answer comes to it, and it can't be given up
	expires time.Duration // by Bus.elapsed
	state   atomic.Uint32
	done    chan struct{} // closed when answer and err are set; nil where nobody waits
	tokens  chan struct{} // one is given back when it is over; may be nil
	answer  A
	err     error
}

// lane is the way to one subject of a journal and back: items leave in batches, one batch at a
// time, and answers find their items by the batch's number and their position.
type lane[T, A any] struct {
	laneConfig[T, A]
	appender *journal.Appender[*item[T, A]]
	open     atomic.Int64 // items that wait for an answer
	stuck    atomic.Bool  // settlements of a failed batch are being stored; new items are turned away
	// confirmed is the number of the last batch that an answer has come to.
	confirmed atomic.Uint64
	stopping  context.Context // of Run; read by the appender's goroutine only

	mu      sync.Mutex
	fifo    []*item[T, A] // in the order of their deadlines, those that are over among them
	flights map[uint64]*flight[T, A]
}

type laneConfig[T, A any] struct {
	bus     *Bus
	kind    string // in metrics and logs
	subject string
	timeout time.Duration
	// gated: the next batch waits for the answers to the last one. The fold remembers the answer to
	// the last batch of a source only, so one that was lost could else not be had again.
	gated  bool
	encode func(number uint64, items []*item[T, A]) ([]byte, error)
	size   func(value T) int
	// orphan is told of an item that was published and whose answer nobody took; the answer is nil
	// where it is not known. May be nil.
	orphan func(value T, answer *A)
}

// flight is a batch that left and is not answered completely.
type flight[T, A any] struct {
	number   uint64
	data     []byte
	left     time.Time
	asked    time.Duration // when it was last published, by Bus.elapsed
	isStored bool
	items    []*item[T, A] // by position; nil: answered
	open     int           // those that are not
	resolved chan struct{} // closed when the flight is removed
}

func newLane[T, A any](cfg laneConfig[T, A]) (*lane[T, A], error) {
	l := &lane[T, A]{laneConfig: cfg, flights: map[uint64]*flight[T, A]{}, stopping: context.Background()}
	// Items that want an answer are bounded by open, settlements by their own tokens.
	const never = 1 << 30
	appender, err := journal.NewAppender(cfg.bus.nc, journal.Config[*item[T, A]]{
		Subject:       cfg.subject,
		MaxQueue:      never,
		MaxQueueBytes: never,
		// Sooner than its items run out of time, so that they learn it when nothing was published.
		MaxWait:   cfg.timeout / 5 * 4,
		AckWait:   cfg.bus.cfg.ResendAfter,
		DrainWait: cfg.bus.cfg.DrainTimeout,
		Encode:    l.depart,
		Size:      func(it *item[T, A]) int { return cfg.size(it.value) },
		Acked:     l.acked,
		Failed:    l.failed,
		Logger:    cfg.bus.cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	l.appender = appender
	return l, nil
}

func (l *lane[T, A]) run(ctx context.Context) error {
	l.stopping = ctx
	return l.appender.Run(ctx)
}

// waiting tells whether an item waits for its answer.
func (l *lane[T, A]) waiting() bool { return l.open.Load() > 0 }

// start queues an item that wants an answer. It never blocks.
func (l *lane[T, A]) start(it *item[T, A]) {
	if l.open.Add(1) > int64(l.bus.cfg.MaxWaiting) {
		l.end(it, unavailable(errQueue))
		return
	}
	if l.stuck.Load() {
		l.end(it, unavailable(errStuck))
		return
	}
	it.expires = l.bus.elapsed() + l.timeout
	l.mu.Lock()
	l.fifo = append(l.fifo, it)
	l.mu.Unlock()
	if err := l.appender.Add(it); err != nil {
		l.end(it, appendFault(err))
	}
}

// wait returns when it is over, which start sees to; earlier when ctx ends.
func (l *lane[T, A]) wait(ctx context.Context, it *item[T, A]) error {
	select {
	case <-it.done:
		return it.err
	case <-ctx.Done():
		l.abandon(ctx, it)
		<-it.done // closed by abandon, or this instant by who was faster
		return it.err
	}
}

// abandon gives an item up.
func (l *lane[T, A]) abandon(ctx context.Context, it *item[T, A]) {
	if it.state.CompareAndSwap(waiting, over) {
		l.finish(it, ended(ctx, false))
	} else if it.state.CompareAndSwap(sent, over) {
		l.finish(it, ended(ctx, true))
	}
}

// claim reports whether the caller is the one that ends the item; finish must follow.
func (it *item[T, A]) claim() bool { return it.state.Swap(over) != over }

func (l *lane[T, A]) end(it *item[T, A], err error) {
	if it.claim() {
		l.finish(it, err)
	}
}

func (l *lane[T, A]) finish(it *item[T, A], err error) {
	it.err = err
	if !it.stored {
		l.open.Add(-1)
	}
	if it.done != nil {
		close(it.done)
	}
	if it.tokens != nil {
		<-it.tokens
	}
}

// depart encodes a batch for the appender, without those that were given up.
func (l *lane[T, A]) depart(number uint64, items []*item[T, A]) ([]byte, error) {
	l.recall(number)
	f := &flight[T, A]{number: number, resolved: make(chan struct{})}
	leaving := make([]*item[T, A], 0, len(items))
	for _, it := range items {
		switch {
		case it.stored:
		case it.state.CompareAndSwap(waiting, sent):
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
	f.open, f.left = len(f.items), time.Now()
	l.mu.Lock()
	l.flights[number] = f
	l.mu.Unlock()
	l.bus.metrics.items.WithLabelValues(l.kind).Observe(float64(len(leaving)))
	return f.data, nil
}

// recall undoes a depart of the same number that turned out too large for one message.
func (l *lane[T, A]) recall(number uint64) {
	if f := l.remove(number); f != nil {
		for _, it := range f.items {
			it.state.CompareAndSwap(sent, waiting)
		}
	}
}

func (l *lane[T, A]) remove(number uint64) *flight[T, A] {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flights[number]
	delete(l.flights, number)
	return f
}

// acked runs on the appender's goroutine: until it returns, the next batch does not leave.
func (l *lane[T, A]) acked(items []*item[T, A], number, _ uint64) {
	l.bus.metrics.batches.WithLabelValues(l.kind).Inc()
	for _, it := range items {
		if it.stored {
			l.end(it, nil)
		}
	}
	l.mu.Lock()
	f := l.flights[number]
	if f != nil {
		f.isStored, f.asked = true, l.bus.elapsed()
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
	l.mu.Unlock()
	l.confirm(number)
	l.landed(f)
	for i, it := range f.items {
		l.deliver(it, i, set)
	}
	return true
}

// confirm lets the appender go on: what is answered is stored.
func (l *lane[T, A]) confirm(number uint64) {
	for {
		last := l.confirmed.Load()
		if last >= number || l.confirmed.CompareAndSwap(last, number) {
			break
		}
	}
	l.appender.Confirm(number)
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
	l.mu.Unlock()
	l.confirm(number)
	if last {
		l.landed(f)
	}
	if it != nil {
		l.deliver(it, index, set)
	}
	return true
}

// failed runs on the appender's goroutine.
func (l *lane[T, A]) failed(items []*item[T, A], number uint64, cause error) {
	if number > 0 && l.confirmed.Load() == number {
		l.acked(items, number, 0) // the answer came in the instant in which the appender gave up
		return
	}
	f := l.remove(number)
	unknown := errors.Is(cause, journal.ErrUnknown)
	err := appendFault(cause)
	var settlements []*item[T, A]
	for _, it := range items {
		if it.stored {
			settlements = append(settlements, it)
			continue
		}
		l.end(it, err)
	}
	if f != nil {
		l.given(f, unknown)
	}
	l.bus.cfg.Logger.Warn("batch failed", slog.String("subject", l.subject), slog.Uint64("number", number),
		slog.Int("items", len(items)), slog.Int("settlements", len(settlements)), slog.Any("error", cause))
	if len(settlements) > 0 {
		l.store(settlements, number, f, unknown, cause)
	}
}

// store keeps on until the settlements of a batch that failed are stored, or the bus stops.
// Without that they would be lost. Where the batch may have been stored already, it must be the same
// bytes again, since a settlement in another batch would count twice; where it certainly was not,
// its number is free for a batch without the admissions, whose waiters have been told.
func (l *lane[T, A]) store(settlements []*item[T, A], number uint64, f *flight[T, A], unknown bool, cause error) {
	if f == nil || errors.Is(cause, journal.ErrClosed) || l.stopping.Err() != nil {
		l.lose(settlements, cause)
		return
	}
	l.stuck.Store(true)
	defer l.stuck.Store(false)
	data := f.data
	if !unknown {
		var err error
		if data, err = l.encode(number, settlements); err != nil {
			l.lose(settlements, err)
			return
		}
	}
	if err := l.insist(data); err != nil {
		l.lose(settlements, err)
		return
	}
	l.bus.metrics.batches.WithLabelValues(l.kind).Inc()
	for _, it := range settlements {
		l.end(it, nil)
	}
}

func (l *lane[T, A]) lose(settlements []*item[T, A], cause error) {
	l.bus.cfg.Logger.Error("settlements were not stored", slog.String("subject", l.subject),
		slog.Int("settlements", len(settlements)), slog.Any("error", cause))
	for _, it := range settlements {
		l.end(it, outcomeUnknown(cause))
	}
}

// insist publishes one message until it is stored, or until DrainTimeout after the bus stops.
func (l *lane[T, A]) insist(data []byte) error {
	var failure error
	ctx, done := context.WithCancel(l.stopping)
	defer done()
	once, err := journal.NewAppender(l.bus.nc, journal.Config[[]byte]{
		Subject:   l.subject,
		AckWait:   l.bus.cfg.ResendAfter,
		DrainWait: l.bus.cfg.DrainTimeout,
		Encode:    func(_ uint64, items [][]byte) ([]byte, error) { return items[0], nil },
		Size:      func([]byte) int { return 0 },
		Acked:     func([][]byte, uint64, uint64) { done() },
		Failed:    func(_ [][]byte, _ uint64, err error) { failure = err; done() },
		Logger:    l.bus.cfg.Logger,
	})
	if err != nil {
		return err
	}
	if err := once.Add(data); err != nil {
		return err
	}
	return errors.Join(once.Run(ctx), failure)
}

// sweep gives up what is out of time and asks again for what is not answered.
func (l *lane[T, A]) sweep(now time.Duration, reconnected bool) {
	for _, it := range l.expired(now) {
		l.abandon(context.Background(), it)
	}
	unanswered, abandoned := l.overdue(now, reconnected)
	for _, f := range abandoned {
		l.given(f, true)
	}
	for _, f := range unanswered {
		l.bus.metrics.resends.WithLabelValues(l.kind).Inc()
		err := l.appender.Resend(f.number)
		if errors.Is(err, journal.ErrForgotten) {
			err = l.bus.nc.Publish(l.subject, f.data)
		}
		if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			l.bus.cfg.Logger.Warn("batch was not sent again", slog.String("subject", l.subject), slog.Any("error", err))
		}
	}
}

// given ends a flight without an answer; orphans tells whether its items may have been admitted.
func (l *lane[T, A]) given(f *flight[T, A], orphans bool) {
	close(f.resolved)
	if !orphans || l.orphan == nil {
		return
	}
	for _, it := range f.items {
		if it != nil {
			l.orphan(it.value, nil)
		}
	}
}

// expired takes those whose time is over from the front of the queue.
func (l *lane[T, A]) expired(now time.Duration) (late []*item[T, A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for ; n < len(l.fifo); n++ {
		it := l.fifo[n]
		if it.state.Load() == over {
			continue
		}
		if it.expires > now {
			break
		}
		late = append(late, it)
	}
	rest := copy(l.fifo, l.fifo[n:])
	clear(l.fifo[rest:])
	l.fifo = l.fifo[:rest]
	return late
}

// overdue looks through the stored batches: those to ask for again, and those that nobody waits for
// any more, which it removes.
func (l *lane[T, A]) overdue(now time.Duration, reconnected bool) (unanswered, abandoned []*flight[T, A]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for number, f := range l.flights {
		if !f.isStored {
			continue // the appender is at it
		}
		if f.abandoned() {
			delete(l.flights, number)
			abandoned = append(abandoned, f)
		} else if reconnected || now-f.asked >= l.bus.cfg.ResendAfter {
			f.asked = now
			unanswered = append(unanswered, f)
		}
	}
	return unanswered, abandoned
}

// abandoned tells whether all that are not answered were given up.
func (f *flight[T, A]) abandoned() bool {
	for _, it := range f.items {
		if it != nil && it.state.Load() != over {
			return false
		}
	}
	return true
}
