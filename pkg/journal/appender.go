package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Config describes an appender. The callbacks run on the goroutine of
// Appender.Run, one at a time: while one runs, no batch leaves.
type Config[T any] struct {
	// Subject that the batches are published to.
	Subject string
	// MaxItems bounds one batch; 4,096 where it is 0.
	MaxItems int
	// MaxBytes bounds the sum of the sizes of one batch; where it is 0, or
	// more, seven eighths of what the server takes in one message.
	MaxBytes int
	// MaxQueue bounds the items that wait; 65,536 where it is 0.
	MaxQueue int
	// MaxQueueBytes bounds the sum of their sizes; 64 MiB where it is 0.
	MaxQueueBytes int
	// MaxWait, from the first publish of a batch, until it fails with
	// ErrUnknown, or ErrUnavailable where it was surely not stored. A refusal
	// (ErrFull, ErrTooLarge, ErrUnavailable) fails it at once. 0: never;
	// refusals are then retried too, for ever.
	MaxWait time.Duration
	// AckWait until a batch is published again, doubled each time up to eight
	// times; 1 s where it is 0.
	AckWait time.Duration
	// DrainWait bounds how long Run goes on after its context has ended; 10 s
	// where it is 0.
	DrainWait time.Duration
	// Keep is of how many acknowledged batches the bytes are kept for Resend,
	// besides those in flight; 1 where it is 0.
	Keep int

	// Encode makes the message of a batch. number counts 1, 2, 3, …; it may be
	// called again for the same number with fewer items. The slice of items is
	// the appender's. The bytes must stay as they are for the next Keep numbers.
	Encode func(number uint64, items []T) ([]byte, error)
	// Size of an item as encoded, in bytes, rounded up. It runs in Add.
	Size func(item T) int
	// Acked tells that the batch is stored. sequence is 0 where that was
	// learned by Confirm. items must not be kept; it may be nil.
	Acked func(items []T, number, sequence uint64)
	// Failed tells that the batch was not stored, or with ErrUnknown that it
	// may have been, or may yet be. number is 0 where the items were never
	// published. items must not be kept.
	Failed func(items []T, number uint64, err error)

	// Logger is told of retries; nil for none.
	Logger *slog.Logger
}

func (c *Config[T]) setDefaults(maxPayload int) error {
	if c.Subject == "" || c.Encode == nil || c.Size == nil || c.Failed == nil {
		return errors.New("an appender needs a subject, Encode, Size and Failed")
	}
	orDefault(&c.MaxItems, 4096)
	orDefault(&c.MaxQueue, 65536)
	orDefault(&c.MaxQueueBytes, 64<<20)
	orDefault(&c.AckWait, time.Second)
	orDefault(&c.DrainWait, 10*time.Second)
	orDefault(&c.Keep, 1)
	if most := maxPayload / 8 * 7; c.MaxBytes <= 0 || c.MaxBytes > most {
		c.MaxBytes = most
	}
	if c.Acked == nil {
		c.Acked = func([]T, uint64, uint64) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

func orDefault[N int | time.Duration](value *N, otherwise N) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Appender is a group commit to one subject. All that waits goes into one
// message, and the next batch leaves as soon as the last one is known to be
// stored; there is no timer, and batches grow with load. Items are never
// split, reordered, or left out between two others.
//
// A batch whose fate is unknown is published again, byte for byte, so the same
// message may be stored twice: folds skip a number that is not greater than the
// last of its source.
type Appender[T any] struct {
	nc  *nats.Conn
	cfg Config[T]

	mu         sync.Mutex // short: never held over a call
	queue      []T
	sizes      []int
	queueBytes int
	closed     bool
	wake       chan struct{} // the queue was empty and is no longer

	// Of the goroutine of Run.
	items   []T
	pending []int // their sizes
	number  uint64
	timer   *time.Timer

	inbox   string        // acknowledgements come to <inbox>.<number>.<attempt>
	current atomic.Uint64 // number of the batch in flight
	answers chan answer

	keepMu sync.Mutex
	kept   []keptBatch // oldest first
	resent uint64      // number of the batch last sent by Resend
}

type keptBatch struct {
	number uint64
	data   []byte
}

// NewAppender checks the configuration. Nothing leaves before Run.
func NewAppender[T any](nc *nats.Conn, cfg Config[T]) (*Appender[T], error) {
	if err := cfg.setDefaults(int(nc.MaxPayload())); err != nil {
		return nil, fmt.Errorf("new appender to %q: %w", cfg.Subject, err)
	}
	return &Appender[T]{
		nc:      nc,
		cfg:     cfg,
		wake:    make(chan struct{}, 1),
		inbox:   nc.NewInbox(),
		answers: make(chan answer, 16),
	}, nil
}

// Add queues an item. It does not block. Errors: ErrBusy where the queue is
// full, ErrTooLarge where the item alone exceeds MaxBytes, ErrClosed. After nil
// the item comes back exactly once, in Acked or in Failed, if Run is called. Safe for concurrent
// use; items of one goroutine stay in order.
func (a *Appender[T]) Add(item T) error {
	size := a.cfg.Size(item)
	if size > a.cfg.MaxBytes {
		return fmt.Errorf("append to %s: %w: %d bytes", a.cfg.Subject, ErrTooLarge, size)
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return ErrClosed
	}
	if len(a.queue) >= a.cfg.MaxQueue || a.queueBytes+size > a.cfg.MaxQueueBytes {
		a.mu.Unlock()
		return ErrBusy
	}
	a.queue = append(a.queue, item)
	a.sizes = append(a.sizes, size)
	a.queueBytes += size
	first := len(a.queue) == 1
	a.mu.Unlock()
	if first {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Confirm says that the batch is stored, since its answer has come: a fold
// sees only what is stored. It does not block. Safe for concurrent use.
func (a *Appender[T]) Confirm(number uint64) {
	if a.current.Load() == number {
		a.deliver(answer{number: number, kind: stored})
	}
}

// Resend publishes the identical bytes of the batch in flight, or of one of the
// last Keep that were acknowledged, once more, so that its fold answers again.
// ErrForgotten for any other. Safe for concurrent use.
func (a *Appender[T]) Resend(number uint64) error {
	a.keepMu.Lock()
	defer a.keepMu.Unlock() // over the publish: the bytes must not be reused meanwhile
	i := slices.IndexFunc(a.kept, func(k keptBatch) bool { return k.number == number })
	if i < 0 {
		return fmt.Errorf("resend batch %d to %s: %w", number, a.cfg.Subject, ErrForgotten)
	}
	a.resent = number
	if err := a.nc.PublishRequest(a.cfg.Subject, a.reply(number, 0), a.kept[i].data); err != nil {
		return fmt.Errorf("resend batch %d to %s: %w", number, a.cfg.Subject, err)
	}
	return nil
}

// Run appends until ctx ends; then it takes no more items, writes those that
// wait, and returns nil. What is not written DrainWait later fails, with
// ErrUnknown where it may have been stored and else with ErrClosed, and so does
// all when the connection is closed; Run then returns an error. It must be called
// once.
func (a *Appender[T]) Run(ctx context.Context) error {
	sub, err := a.nc.Subscribe(a.inbox+".*.*", a.receive)
	if err != nil {
		a.close()
		a.failRest()
		return fmt.Errorf("subscribe to acknowledgements of %s: %w", a.cfg.Subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only where the connection is closed
	status := a.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer a.nc.RemoveStatusListener(status)

	work, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	stop := context.AfterFunc(ctx, func() {
		a.close()
		time.AfterFunc(a.cfg.DrainWait, abandon)
	})
	defer stop()
	a.timer = time.NewTimer(time.Hour)
	defer a.timer.Stop()

	for {
		// Senders that the last batch has just woken get to add first: with 512
		// of them batches grow from 300 to 440 items. Costs nothing when idle.
		runtime.Gosched()
		if a.take() {
			a.write(work, status)
		} else if ctx.Err() != nil && a.drained() {
			return nil
		} else {
			select {
			case <-a.wake:
			case <-ctx.Done():
				a.close()
			case <-status:
			}
		}
		if work.Err() != nil || a.nc.IsClosed() {
			a.close()
			if n := a.failRest(); n > 0 || a.nc.IsClosed() {
				return fmt.Errorf("append to %s: %w with %d items unwritten", a.cfg.Subject, ErrClosed, n)
			}
			return nil
		}
	}
}

func (a *Appender[T]) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
}

func (a *Appender[T]) drained() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed && len(a.queue) == 0
}

// take moves all that waits behind what an earlier batch has left over, and
// reports whether there is anything.
func (a *Appender[T]) take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.items) == 0 {
		a.items, a.queue = a.queue, a.items
		a.pending, a.sizes = a.sizes, a.pending
	} else if len(a.items) < a.cfg.MaxItems {
		a.items = append(a.items, a.queue...)
		a.pending = append(a.pending, a.sizes...)
		clear(a.queue)
		a.queue, a.sizes = a.queue[:0], a.sizes[:0]
	} else {
		return true
	}
	a.queueBytes = 0
	return len(a.items) > 0
}

// cut is how many of the items that were taken fit into one batch.
func (a *Appender[T]) cut() int {
	n, total := 0, 0
	for n < len(a.items) && n < a.cfg.MaxItems {
		total += a.pending[n]
		if n > 0 && total > a.cfg.MaxBytes {
			break
		}
		n++
	}
	return n
}

// drop removes the first n items, which have been dealt with.
func (a *Appender[T]) drop(n int) {
	a.items = slices.Delete(a.items, 0, n) // clears the tail
	a.pending = slices.Delete(a.pending, 0, n)
}

// failRest gives up all that was never published.
func (a *Appender[T]) failRest() (n int) {
	for a.take() {
		n += len(a.items)
		a.fail(len(a.items), 0, ErrClosed)
	}
	return n
}

func (a *Appender[T]) fail(n int, number uint64, err error) {
	a.cfg.Failed(a.items[:n], number, fmt.Errorf("append to %s: %w", a.cfg.Subject, err))
	a.drop(n)
}

// write appends one batch of what was taken and reports its fate.
func (a *Appender[T]) write(ctx context.Context, status <-chan nats.Status) {
	n := a.cut()
	a.number++
	a.forgetOld() // before Encode may use their bytes again
	data, err := a.cfg.Encode(a.number, a.items[:n])
	for err == nil && n > 1 && len(data) > int(a.nc.MaxPayload()) {
		// The sizes were too low. Nothing has been published yet.
		n /= 2
		data, err = a.cfg.Encode(a.number, a.items[:n])
	}
	if err == nil && len(data) > int(a.nc.MaxPayload()) {
		err = fmt.Errorf("%w: %d bytes", ErrTooLarge, len(data))
	}
	if err != nil {
		a.fail(n, a.number, err)
		return
	}
	a.keep(data)
	a.current.Store(a.number)
	sequence, err := a.publish(ctx, data, status)
	a.current.Store(0)
	if err != nil {
		a.forget(a.number)
		a.fail(n, a.number, err)
		return
	}
	a.cfg.Acked(a.items[:n], a.number, sequence)
	a.drop(n)
}

// keep remembers the batch about to leave.
func (a *Appender[T]) keep(data []byte) {
	a.keepMu.Lock()
	defer a.keepMu.Unlock()
	a.kept = append(a.kept, keptBatch{number: a.number, data: data})
}

// forgetOld leaves the last Keep batches.
func (a *Appender[T]) forgetOld() {
	a.keepMu.Lock()
	defer a.keepMu.Unlock()
	if extra := len(a.kept) - a.cfg.Keep; extra > 0 {
		a.kept = slices.Delete(a.kept, 0, extra)
	}
}

// forget makes sure that a batch that fails is not sent again. It reports
// whether Resend has sent it, which may have stored what publish could not.
func (a *Appender[T]) forget(number uint64) (resent bool) {
	a.keepMu.Lock()
	defer a.keepMu.Unlock()
	a.kept = slices.DeleteFunc(a.kept, func(k keptBatch) bool { return k.number == number })
	return a.resent == number
}
