package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Config describes a batcher. Zero numbers take the default given beside them.
type Config[Req, Resp any] struct {
	// Subject is where the batches are sent.
	Subject  string
	MaxItems int // requests of one batch; 1,024
	// MaxBytes bounds the sum of Size over one batch; seven eighths of the largest message, and never more.
	MaxBytes int
	MaxQueue int           // requests waiting to be sent; 65,536
	InFlight int           // batches waiting for answers; 4
	Timeout  time.Duration // for the answers to a batch; DefaultTimeout

	// Encode encodes a batch as a message. It must not keep the requests, and the bytes must not change until the batch is
	// answered.
	Encode func(requests []Req) ([]byte, error)
	// Size returns the encoded size of a request in bytes, rounded up. If it is nil, MaxBytes has no effect.
	Size func(request Req) int
	// Decode decodes one message of answers. indexes are the positions in the batch of the requests they answer; nil: 0, 1, 2
	// and so on. A batch is finished when all its requests are answered, by one message or several. Decode runs on the
	// receiving goroutine. An error fails the batch.
	Decode func(data []byte) (answers []Resp, indexes []int, err error)
}

func (c *Config[Req, Resp]) setDefaults(maxPayload int) error {
	if c.Subject == "" || c.Encode == nil || c.Decode == nil {
		return errors.New("a batcher needs a subject, Encode and Decode")
	}
	orDefault(&c.MaxItems, 1024)
	orDefault(&c.MaxQueue, 65536)
	orDefault(&c.InFlight, 4)
	orDefault(&c.Timeout, DefaultTimeout)
	if most := maxPayload / 8 * 7; c.MaxBytes <= 0 || c.MaxBytes > most {
		c.MaxBytes = most
	}
	if c.Size == nil {
		c.Size = func(Req) int { return 0 }
	}
	return nil
}

func orDefault[N int | time.Duration](value *N, otherwise N) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Batcher merges concurrent requests to one subject. While fewer than InFlight batches are in flight a request is sent at once.
// Otherwise it is queued, and sent with all others when a batch is answered. A batcher has no goroutine: callers send, and the
// goroutine that receives an answer sends the next batch. Safe for concurrent use.
type Batcher[Req, Resp any] struct {
	nc    *nats.Conn
	cfg   Config[Req, Resp]
	inbox string // answers come to <inbox>.<batch>
	sub   *nats.Subscription
	pool  sync.Pool // of *pending[Resp]

	mu      sync.Mutex // not held during a call or a send
	queue   []waiting[Req, Resp]
	slots   int // batches that may still be sent
	last    uint64
	flights map[uint64]*flight[Req, Resp]
	closed  bool
}

// pending receives the answer to one request, exactly once.
type pending[Resp any] struct {
	done      chan struct{} // capacity 1
	abandoned atomic.Bool
	answer    Resp
	err       error
}

type waiting[Req, Resp any] struct {
	request Req
	size    int
	p       *pending[Resp]
}

// flight is a batch in flight.
type flight[Req, Resp any] struct {
	id       uint64
	requests []Req
	deadline time.Time

	mu      sync.Mutex
	waiters []*pending[Resp] // nil: answered
	left    int
	data    []byte
	out     bool          // sent, and not known to be without a receiver
	pause   time.Duration // before the next attempt
	timer   *time.Timer   // at the deadline, or at the next attempt
}

// Future is a request in progress.
type Future[Resp any] struct {
	p    *pending[Resp]
	pool *sync.Pool
}

// NewBatcher subscribes to the answers, until Close.
func NewBatcher[Req, Resp any](nc *nats.Conn, cfg Config[Req, Resp]) (*Batcher[Req, Resp], error) {
	if err := cfg.setDefaults(int(nc.MaxPayload())); err != nil {
		return nil, fmt.Errorf("new batcher to %q: %w", cfg.Subject, err)
	}
	b := &Batcher[Req, Resp]{
		nc:      nc,
		cfg:     cfg,
		inbox:   nc.NewInbox(),
		slots:   cfg.InFlight,
		flights: make(map[uint64]*flight[Req, Resp], cfg.InFlight),
	}
	b.pool.New = func() any { return &pending[Resp]{done: make(chan struct{}, 1)} }
	sub, err := nc.Subscribe(b.inbox+".*", b.receive)
	if err != nil {
		return nil, fmt.Errorf("new batcher to %s: %w", cfg.Subject, err)
	}
	// Batches in flight bound the answers.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("new batcher to %s: %w", cfg.Subject, err)
	}
	b.sub = sub
	return b, nil
}

// Start sends or queues a request and does not wait for its answer, which may be ignored.
func (b *Batcher[Req, Resp]) Start(request Req) Future[Resp] {
	p := b.pool.Get().(*pending[Resp])
	call := Future[Resp]{p: p, pool: &b.pool}
	size := b.cfg.Size(request)
	if size > b.cfg.MaxBytes {
		p.fail(ErrTooLarge)
		return call
	}
	b.mu.Lock()
	switch {
	case b.closed:
		b.mu.Unlock()
		p.fail(ErrClosed)
		return call
	case len(b.queue) >= b.cfg.MaxQueue:
		b.mu.Unlock()
		p.fail(ErrBusy)
		return call
	}
	b.queue = append(b.queue, waiting[Req, Resp]{request: request, size: size, p: p})
	f := b.depart()
	b.mu.Unlock()
	b.send(f)
	return call
}

// Wait waits for the answer until ctx ends. It must be called at most once. Errors: *Error from the server, ErrUnavailable,
// ErrTimeout (also if the deadline of ctx has passed), ErrBusy, ErrTooLarge, ErrClosed, and ctx.Err() if ctx was canceled.
func (c Future[Resp]) Wait(ctx context.Context) (Resp, error) {
	p := c.p
	select {
	case <-p.done:
	default:
		select {
		case <-p.done:
		case <-ctx.Done():
			p.abandoned.Store(true) // skipped if still queued
			var none Resp
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return none, fmt.Errorf("%w: %w", ErrTimeout, ctx.Err())
			}
			return none, ctx.Err()
		}
	}
	answer, err := p.answer, p.err
	var none Resp
	p.answer, p.err = none, nil
	c.pool.Put(p)
	return answer, err
}

func (p *pending[Resp]) fail(err error) {
	p.err = err
	p.done <- struct{}{}
}

// Close fails all pending requests with ErrClosed.
func (b *Batcher[Req, Resp]) Close() error {
	b.mu.Lock()
	b.closed = true
	queue := b.queue
	b.queue = nil
	flights := b.flights
	b.flights = map[uint64]*flight[Req, Resp]{}
	b.mu.Unlock()
	err := b.sub.Unsubscribe()
	for _, w := range queue {
		w.p.fail(ErrClosed)
	}
	for _, f := range flights {
		f.fail(ErrClosed)
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		return fmt.Errorf("close batcher to %s: %w", b.cfg.Subject, err)
	}
	return nil
}

// depart makes a flight of queued requests, or returns nil if the queue is empty or all slots are taken. The caller holds b.mu.
func (b *Batcher[Req, Resp]) depart() *flight[Req, Resp] {
	if b.slots == 0 || len(b.queue) == 0 {
		return nil
	}
	f := &flight[Req, Resp]{
		requests: make([]Req, 0, min(len(b.queue), b.cfg.MaxItems)),
		waiters:  make([]*pending[Resp], 0, min(len(b.queue), b.cfg.MaxItems)),
	}
	n, bytes := 0, 0
	for ; n < len(b.queue) && len(f.requests) < b.cfg.MaxItems; n++ {
		w := &b.queue[n]
		if w.p.abandoned.Load() {
			continue
		}
		bytes += w.size
		if bytes > b.cfg.MaxBytes && len(f.requests) > 0 {
			break
		}
		f.requests = append(f.requests, w.request)
		f.waiters = append(f.waiters, w.p)
	}
	b.queue = slices.Delete(b.queue, 0, n) // clears the tail
	if len(f.requests) == 0 {
		return nil
	}
	b.slots--
	b.last++
	f.id, f.left = b.last, len(f.requests)
	b.flights[f.id] = f
	return f
}

// send encodes and publishes a new flight; nil is ignored.
func (b *Batcher[Req, Resp]) send(f *flight[Req, Resp]) {
	if f == nil {
		return
	}
	data, err := b.cfg.Encode(f.requests)
	for err == nil && len(data) > b.payload() {
		if len(f.requests) == 1 {
			err = fmt.Errorf("send to %s: %w: %d bytes", b.cfg.Subject, ErrTooLarge, len(data))
			break
		}
		b.halve(f)
		data, err = b.cfg.Encode(f.requests)
	}
	if err != nil {
		b.end(f, err)
		return
	}
	f.mu.Lock()
	f.data = data
	f.deadline = time.Now().Add(b.cfg.Timeout)
	f.timer = time.AfterFunc(b.cfg.Timeout, func() { b.due(f) })
	f.mu.Unlock()
	b.publish(f)
}

// payload is the maximum size of a batch without its header.
func (b *Batcher[Req, Resp]) payload() int { return int(b.nc.MaxPayload()) - 64 }

// halve returns the second half of an unsent flight to the head of the queue.
func (b *Batcher[Req, Resp]) halve(f *flight[Req, Resp]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return // failed by Close
	}
	n := len(f.requests) / 2
	rest := make([]waiting[Req, Resp], 0, len(f.requests)-n)
	for i := n; i < len(f.requests); i++ {
		rest = append(rest, waiting[Req, Resp]{request: f.requests[i], size: b.cfg.Size(f.requests[i]), p: f.waiters[i]})
	}
	b.queue = slices.Insert(b.queue, 0, rest...)
	f.requests, f.waiters, f.left = f.requests[:n], f.waiters[:n], n
}

// publish sends a flight, and retries while no server serves the subject.
func (b *Batcher[Req, Resp]) publish(f *flight[Req, Resp]) {
	f.mu.Lock()
	f.out = true // before an answer can come
	f.mu.Unlock()
	m := &nats.Msg{
		Subject: b.cfg.Subject,
		Reply:   b.inbox + "." + strconv.FormatUint(f.id, 10),
		Header:  timeoutIn(time.Until(f.deadline)),
		Data:    f.data,
	}
	err := nats.ErrDisconnected
	if b.nc.IsConnected() {
		err = b.nc.PublishMsg(m)
	}
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrMaxPayload):
		b.end(f, fmt.Errorf("send to %s: %w: %w", b.cfg.Subject, ErrTooLarge, err))
	case b.nc.IsClosed():
		b.end(f, fmt.Errorf("send to %s: %w", b.cfg.Subject, ErrClosed))
	default:
		b.later(f)
	}
}

// later sends the batch again after a pause. No server has received it.
func (b *Batcher[Req, Resp]) later(f *flight[Req, Resp]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return
	}
	f.out = false
	f.pause = min(max(2*f.pause, initialPause), maxPause)
	f.timer.Stop()
	f.timer = time.AfterFunc(min(f.pause, max(time.Until(f.deadline), 0)), func() { b.due(f) })
}

// due runs at a flight's deadline and when its next attempt is due.
func (b *Batcher[Req, Resp]) due(f *flight[Req, Resp]) {
	f.mu.Lock()
	out, left, done := f.out, time.Until(f.deadline), f.left == 0
	over := left <= 0 || !out && left < lastAttempt
	if !over && !done {
		f.timer = time.AfterFunc(left, func() { b.due(f) })
	}
	f.mu.Unlock()
	switch {
	case done:
	case over && out:
		b.end(f, fmt.Errorf("send to %s: %w", b.cfg.Subject, ErrTimeout))
	case over:
		b.end(f, fmt.Errorf("send to %s: %w", b.cfg.Subject, ErrUnavailable))
	case !out:
		b.publish(f)
	}
}

// receive handles one message of answers.
func (b *Batcher[Req, Resp]) receive(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[min(len(b.inbox)+1, len(m.Subject)):], 10, 64)
	if err != nil {
		return
	}
	b.mu.Lock()
	f := b.flights[id]
	b.mu.Unlock()
	if f == nil {
		return // timed out, or a duplicate
	}
	if noResponders(m) {
		b.later(f)
		return
	}
	if err := failure(m); err != nil {
		b.end(f, err)
		return
	}
	answers, indexes, err := b.cfg.Decode(m.Data)
	if err == nil {
		err = f.land(answers, indexes)
	}
	if err != nil {
		b.end(f, fmt.Errorf("decode answer from %s: %w", b.cfg.Subject, err))
		return
	}
	f.mu.Lock()
	done := f.left == 0
	f.mu.Unlock()
	if done {
		b.end(f, nil)
	}
}

// land delivers answers to the waiting requests.
func (f *flight[Req, Resp]) land(answers []Resp, indexes []int) error {
	if indexes != nil && len(indexes) != len(answers) {
		return fmt.Errorf("%d answers with %d indexes", len(answers), len(indexes))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range answers {
		at := i
		if indexes != nil {
			at = indexes[i]
		}
		if at < 0 || at >= len(f.waiters) {
			return fmt.Errorf("answer %d to a batch of %d", at, len(f.waiters))
		}
		p := f.waiters[at]
		if p == nil {
			continue // a duplicate
		}
		f.waiters[at] = nil
		f.left--
		p.answer = answers[i]
		p.done <- struct{}{}
	}
	return nil
}

// fail fails all unanswered requests.
func (f *flight[Req, Resp]) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.waiters {
		if p != nil {
			f.waiters[i] = nil
			p.fail(err)
		}
	}
	f.left = 0
	if f.timer != nil {
		f.timer.Stop()
	}
}

// end frees the slot of a flight, once, and sends the next flight in it.
func (b *Batcher[Req, Resp]) end(f *flight[Req, Resp], err error) {
	f.fail(err)
	b.mu.Lock()
	var next *flight[Req, Resp]
	if b.flights[f.id] == f {
		delete(b.flights, f.id)
		b.slots++
		next = b.depart()
	}
	b.mu.Unlock()
	b.send(next)
}
