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

	"quire.dev/pkg/wait"
)

// Config describes an appender. Except for Size, its functions run on the
// goroutine of Appender.Run: while one runs, no batch is sent.
type Config[T any] struct {
	Subject       string // of the stream
	MaxItems      int    // of one batch; 0: 4,096
	MaxQueue      int    // items that may wait; 0: 65,536
	MaxQueueBytes int    // sum of their sizes; 0: 64 MiB
	// MaxWait is the time from the first publish of a batch until it fails:
	// with ErrUnavailable if it was certainly not stored, with ErrUnknown
	// otherwise. Items that find no connection for as long fail with
	// ErrUnavailable and no number. A refusal (ErrFull, ErrTooLarge,
	// ErrUnavailable) fails it at once. 0: batches are retried without limit,
	// even after refusals.
	MaxWait time.Duration
	// AckWait is the time until a batch is published again. It doubles each
	// time, up to eightfold. 0: 1 s.
	AckWait time.Duration
	// Linger is how long an item of AddLingering lingers for other items to be batched with. 0: not at all.
	Linger time.Duration
	// DrainWait bounds how long Run goes on after its context has ended. 0: 10 s.
	DrainWait time.Duration

	// Encode encodes a batch as a message. number counts 1, 2, 3, …; Encode may
	// be called again with the same number and fewer items. The slice of items
	// belongs to the appender. The bytes must not change before the call with
	// number+2.
	Encode func(number uint64, items []T) ([]byte, error)
	// Header returns the headers of the batch that was encoded last, nil for none, of at most HeaderBytes together. May be nil.
	Header func(number uint64) nats.Header
	// Size returns the encoded size of an item in bytes, rounded up. Add calls it.
	Size func(item T) int
	// Acked is called when the batch is stored. sequence is 0 if Confirm
	// reported that. items must not be kept. Acked may be nil.
	Acked func(items []T, number, sequence uint64)
	// Failed is called when the batch was not stored; with ErrUnknown, when it
	// may have been stored or may be stored later. number is 0 if the items
	// were never published. items must not be kept.
	Failed func(items []T, number uint64, err error)

	// Files are notified of what is stored, for followers in this process; may be nil.
	Files *Files
	// Metrics count failed attempts; may be nil.
	Metrics *Metrics

	Logger *slog.Logger // for retries; may be nil
}

func (c *Config[T]) setDefaults() error {
	if c.Subject == "" || c.Encode == nil || c.Size == nil || c.Failed == nil {
		return errors.New("an appender needs a subject, Encode, Size and Failed")
	}
	orDefault(&c.MaxItems, 4096)
	orDefault(&c.MaxQueue, 65536)
	orDefault(&c.MaxQueueBytes, 64<<20)
	orDefault(&c.AckWait, time.Second)
	orDefault(&c.DrainWait, 10*time.Second)
	if c.Header == nil {
		c.Header = func(uint64) nats.Header { return nil }
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

// Appender is a group commit to one subject. All waiting items go into one
// message, and the next batch is sent as soon as the previous one is known to
// be stored. Only items that nobody waits for have a timer; batches grow with
// load. Items are never split or reordered, and none is skipped between two
// others.
//
// A batch of unknown outcome is published again, byte for byte, so the same
// message may be stored twice: folds skip numbers not greater than the last one
// of their source.
type Appender[T any] struct {
	nc       *nats.Conn
	cfg      Config[T]
	maxBytes int // sum of the sizes in one batch: seven eighths of the server's limit

	mu         sync.Mutex // short: not held during calls
	queue      []T
	sizes      []int
	queueBytes int
	urgent     int       // queued items of Add
	due        time.Time // when the first queued item of AddLingering has waited for Linger; zero: none is queued
	closed     bool
	wake       chan struct{} // receives when the first item, or the first item of Add, is queued

	// Owned by the goroutine of Run.
	items   []T
	pending []int // their sizes
	number  uint64
	timer   *time.Timer

	inbox string // acknowledgments come to <inbox>.<number>.<attempt>

	answerMu sync.Mutex    // short: not held during calls
	current  atomic.Uint64 // number of the batch in flight, 0 if none; changes with answerMu held
	answers  chan answer   // to the batch in flight only

	keepMu sync.Mutex
	kept   []keptBatch // oldest first
	resent uint64      // number of the batch last sent by Resend
}

type keptBatch struct {
	number uint64
	data   []byte
	header nats.Header // nil: none
}

// HeaderBytes bounds the headers of a batch.
const HeaderBytes = 512

// NewAppender checks the configuration. Nothing is published before Run.
func NewAppender[T any](nc *nats.Conn, cfg Config[T]) (*Appender[T], error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("new appender to %q: %w", cfg.Subject, err)
	}
	return &Appender[T]{
		nc:       nc,
		cfg:      cfg,
		maxBytes: int(nc.MaxPayload()) / 8 * 7,
		wake:     make(chan struct{}, 1),
		inbox:    nc.NewInbox(),
		answers:  make(chan answer, 16),
	}, nil
}

// To replaces the subject of Config. It must be called before Run; items may be
// added earlier.
func (a *Appender[T]) To(subject string) { a.cfg.Subject = subject }

// Add queues an item without blocking. Errors: ErrBusy if the queue is full,
// ErrTooLarge if the item alone exceeds a message, ErrClosed. After nil the
// item comes back exactly once, in Acked or in Failed, if Run is called. Safe
// for concurrent use; items of one goroutine stay in order.
func (a *Appender[T]) Add(item T) error { return a.add(item, false) }

// AddLingering is Add for an item that nobody waits for. It is sent with the next item of Add, or once Linger has passed.
func (a *Appender[T]) AddLingering(item T) error { return a.add(item, a.cfg.Linger > 0) }

// WhenFree calls add, which is Add or AddLingering of an appender, and calls it again while the queue is full, until ctx ends.
func WhenFree[T any](ctx context.Context, add func(T) error, item T) error {
	for retry := (wait.Backoff{Initial: 10 * time.Millisecond, Max: time.Second}); ; {
		if err := add(item); !errors.Is(err, ErrBusy) {
			return err
		}
		if !retry.Wait(ctx) {
			return ctx.Err()
		}
	}
}

func (a *Appender[T]) add(item T, lingering bool) error {
	size := a.cfg.Size(item)
	if size > a.maxBytes {
		return fmt.Errorf("append an item: %w: %d bytes", ErrTooLarge, size)
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
	first := false
	if lingering {
		if first = len(a.queue) == 1; a.due.IsZero() {
			a.due = time.Now().Add(a.cfg.Linger)
		}
	} else {
		a.urgent++
		first = a.urgent == 1
	}
	a.mu.Unlock()
	if first {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// Confirm ends the wait for a batch's acknowledgment once its fold has
// answered, since a fold sees only stored batches. It does not block. Safe for
// concurrent use.
func (a *Appender[T]) Confirm(number uint64) {
	if a.current.Load() == number {
		a.deliver(answer{number: number, kind: stored})
	}
}

// Resend publishes the batch in flight or the last acknowledged one again, so
// that its fold answers again. ErrForgotten for any other batch. Safe for
// concurrent use.
func (a *Appender[T]) Resend(number uint64) error {
	a.keepMu.Lock()
	defer a.keepMu.Unlock() // after the publish, since Encode may reuse the bytes
	i := slices.IndexFunc(a.kept, func(k keptBatch) bool { return k.number == number })
	if i < 0 {
		return fmt.Errorf("resend batch %d to %s: %w", number, a.cfg.Subject, ErrForgotten)
	}
	a.resent = number
	if err := a.request(a.reply(number, 0), a.kept[i]); err != nil {
		return fmt.Errorf("resend batch %d to %s: %w", number, a.cfg.Subject, err)
	}
	return nil
}

// Run appends until ctx ends. Then it accepts no more items, writes the queued
// ones, and returns nil. Items not written within DrainWait fail, with
// ErrUnknown if they may have been stored and with ErrClosed otherwise, as do
// all items when the connection is closed. Run then returns an error. It must
// be called once.
func (a *Appender[T]) Run(ctx context.Context) error {
	sub, err := a.nc.Subscribe(a.inbox+".*.*", a.receive)
	if err != nil {
		a.close()
		a.failRest()
		return fmt.Errorf("subscribe to acknowledgments of %s: %w", a.cfg.Subject, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
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
		// Senders woken by the last batch add their items first: with 512
		// senders batches grow from 300 to 440 items. Costs nothing when idle.
		runtime.Gosched()
		taken, due := a.take()
		if taken {
			a.write(work, status)
		} else if ctx.Err() != nil && a.drained() {
			return nil
		} else {
			var over <-chan time.Time
			if due > 0 {
				a.timer.Reset(due)
				over = a.timer.C
			}
			select {
			case <-a.wake:
			case <-over:
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

// take moves the queue behind the items left over from an earlier batch. It
// reports whether there are any items. If all of them may linger, it takes none
// and returns for how long.
func (a *Appender[T]) take() (taken bool, due time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.items) == 0 && a.urgent == 0 && !a.due.IsZero() && !a.closed {
		if due = time.Until(a.due); due > 0 {
			return false, due
		}
	}
	if len(a.items) == 0 {
		a.items, a.queue = a.queue, a.items
		a.pending, a.sizes = a.sizes, a.pending
	} else if len(a.items) < a.cfg.MaxItems {
		a.items = append(a.items, a.queue...)
		a.pending = append(a.pending, a.sizes...)
		clear(a.queue)
		a.queue, a.sizes = a.queue[:0], a.sizes[:0]
	} else {
		return true, 0
	}
	a.queueBytes, a.urgent, a.due = 0, 0, time.Time{}
	return len(a.items) > 0, 0
}

// cut returns the number of taken items that fit into one batch.
func (a *Appender[T]) cut() int {
	n, total := 0, 0
	for n < len(a.items) && n < a.cfg.MaxItems {
		total += a.pending[n]
		if n > 0 && total > a.maxBytes {
			break
		}
		n++
	}
	return n
}

// drop removes the first n items, which are stored or have failed.
func (a *Appender[T]) drop(n int) {
	a.items = slices.Delete(a.items, 0, n) // clears the tail
	a.pending = slices.Delete(a.pending, 0, n)
}

// failRest fails the items that were never published.
func (a *Appender[T]) failRest() (n int) {
	for {
		taken, _ := a.take()
		if !taken {
			return n
		}
		n += len(a.items)
		a.fail(len(a.items), 0, ErrClosed)
	}
}

func (a *Appender[T]) fail(n int, number uint64, err error) {
	a.cfg.Failed(a.items[:n], number, fmt.Errorf("append to %s: %w", a.cfg.Subject, err))
	a.drop(n)
}

// write appends one batch of the taken items and reports its outcome. Without a connection it makes no batch, since an item in
// a batch counts as possibly sent.
func (a *Appender[T]) write(ctx context.Context, status <-chan nats.Status) {
	n := a.cut()
	if !a.connected(ctx, status) {
		if ctx.Err() == nil && !a.nc.IsClosed() { // otherwise Run fails all remaining items
			a.fail(n, 0, fmt.Errorf("%w: %w", ErrUnavailable, nats.ErrDisconnected))
		}
		return
	}
	a.number++
	a.forgetOld() // before Encode, which may reuse their bytes
	data, err := a.cfg.Encode(a.number, a.items[:n])
	for err == nil && n > 1 && len(data) > int(a.nc.MaxPayload()) {
		// Size returned too little. Nothing has been published yet.
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
	batch := keptBatch{number: a.number, data: data}
	if len(data)+HeaderBytes <= int(a.nc.MaxPayload()) {
		batch.header = a.cfg.Header(a.number)
	}
	a.keep(batch)
	a.begin(a.number)
	sequence, err := a.publish(ctx, batch, status)
	a.end()
	if err != nil {
		a.forget(a.number)
		a.fail(n, a.number, err)
		return
	}
	a.cfg.Acked(a.items[:n], a.number, sequence)
	a.drop(n)
}

// connected waits for the connection, for MaxWait at most.
func (a *Appender[T]) connected(ctx context.Context, status <-chan nats.Status) bool {
	if a.nc.IsConnected() {
		return true
	}
	var late <-chan time.Time
	if a.cfg.MaxWait > 0 {
		a.timer.Reset(a.cfg.MaxWait)
		late = a.timer.C
	}
	for !a.nc.IsConnected() {
		select {
		case <-status: // of a connection restored or closed
		case <-late:
			return false
		case <-ctx.Done():
			return false
		}
		if a.nc.IsClosed() {
			return false
		}
	}
	return true
}

// keep remembers the batch about to be sent.
func (a *Appender[T]) keep(batch keptBatch) {
	a.keepMu.Lock()
	defer a.keepMu.Unlock()
	a.kept = append(a.kept, batch)
}

// request publishes a batch, to be acknowledged on a subject.
func (a *Appender[T]) request(reply string, batch keptBatch) error {
	if batch.header == nil {
		return a.nc.PublishRequest(a.cfg.Subject, reply, batch.data)
	}
	return a.nc.PublishMsg(&nats.Msg{Subject: a.cfg.Subject, Reply: reply, Header: batch.header, Data: batch.data})
}

// forgetOld keeps only the last acknowledged batch.
func (a *Appender[T]) forgetOld() {
	a.keepMu.Lock()
	defer a.keepMu.Unlock()
	if extra := len(a.kept) - 1; extra > 0 {
		a.kept = slices.Delete(a.kept, 0, extra)
	}
}

// forget prevents a failed batch from being resent. It reports whether Resend
// has sent it: then it may be stored although publish failed.
func (a *Appender[T]) forget(number uint64) (resent bool) {
	a.keepMu.Lock()
	defer a.keepMu.Unlock()
	a.kept = slices.DeleteFunc(a.kept, func(k keptBatch) bool { return k.number == number })
	return a.resent == number
}
