package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"quire.dev/pkg/wait"
)

const (
	// confirmations is how often, 200 ms apart, a stream must be seen too short
	// or missing before that is an error: a newly elected server may still be
	// applying the messages of its quorum.
	confirmations = 6
	// confirmationsReplicated is confirmations for a replicated stream: a
	// leader cut off from the others notices after 10 s.
	confirmationsReplicated = 60
	confirmWait             = 200 * time.Millisecond
	// progressEvery is the number of messages between two reports.
	progressEvery = 1024
)

// doubts is how often a stream with so many replicas must be seen too short.
func doubts(replicas int) int {
	if replicas > 1 {
		return confirmationsReplicated
	}
	return confirmations
}

// FollowOptions are the optional callbacks of Follow.
type FollowOptions struct {
	// CaughtUp is called once, when all messages that the stream held at the
	// start of Follow have been handled; at once if there were none.
	CaughtUp func()
	// Progress is called every 1,024 messages while catching up, and at the end of it.
	Progress func(done, total uint64)
}

// Follow calls handle with every message after the sequence from, in order,
// without gap or repeat, until ctx ends or handle fails; it returns that error.
// Calls of handle never overlap, and none runs after Follow has returned. A
// slow handler slows the server down.
//
// Follow survives a lost connection, a restart of the server and the loss of
// its consumer. Errors: ErrGap if the next messages are gone, ErrTruncated if
// the stream ends before from, ErrNoStream, and ErrClosed if the connection was
// closed permanently.
func (j *Journal) Follow(ctx context.Context, from uint64, handle func(context.Context, Message) error, opts FollowOptions) error {
	f := &follower{journal: j, handle: handle, next: from + 1, progress: opts.Progress, caughtUp: opts.CaughtUp}
	return f.run(ctx)
}

// Replay calls handle with the messages after from up to and including to, in
// order, and returns. progress may be nil. It returns Follow's errors, and
// ErrTruncated if the stream ends before to.
func (j *Journal) Replay(ctx context.Context, from, to uint64, handle func(Message) error, progress func(done, total uint64)) error {
	if to <= from {
		return nil
	}
	f := &follower{
		journal:  j,
		handle:   func(_ context.Context, m Message) error { return handle(m) },
		next:     from + 1,
		last:     to,
		progress: progress,
	}
	return f.run(ctx)
}

// errReplayed ends a replay after its last message.
var errReplayed = errors.New("replayed")

// follower is one call of Follow or Replay. Its position belongs to the
// subscription's goroutine while a consumer delivers, and to run otherwise.
type follower struct {
	journal  *Journal
	handle   func(context.Context, Message) error
	progress func(done, total uint64)
	caughtUp func()

	next  uint64 // sequence of the next message to handle
	last  uint64 // sequence to stop after, 0: never
	start uint64 // next at the start
	goal  uint64 // the stream's last sequence at the start, or last
	ready bool   // goal has been set

	unreadable bool // the files lack a message that they should have

	replicas int // of the stream, as last reported by its leader; 0: unknown

	// timeout bounds the wait for the server's response when attaching. It
	// starts short, since a query lost with its connection is never answered.
	timeout wait.Backoff
}

func (f *follower) run(ctx context.Context) error {
	status := f.journal.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer f.journal.nc.RemoveStatusListener(status)
	retry := wait.Backoff{Initial: 10 * time.Millisecond, Max: time.Second}
	f.timeout = wait.Backoff{Initial: time.Second, Max: apiWait}
	for doubted := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		before := f.next
		err := f.once(ctx, status)
		if f.next > before {
			retry.Reset()
			f.timeout.Reset()
			doubted = 0
		}
		switch {
		case errors.Is(err, errReplayed):
			return nil
		case errors.Is(err, errReattach):
		case errors.Is(err, ErrTruncated) || errors.Is(err, ErrNoStream) || errors.Is(err, errSkipped):
			if doubted++; doubted >= doubts(f.replicas) {
				return err
			}
			if !wait.For(ctx, confirmWait) {
				return ctx.Err()
			}
			continue
		default:
			return err
		}
		if !retry.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// errReattach tells run to attach again; it is wrapped together with the cause.
var errReattach = errors.New("attach again")

func reattach(cause error) error { return fmt.Errorf("%w: %w", errReattach, cause) }

// once attaches to the stream and delivers until an error.
func (f *follower) once(ctx context.Context, status <-chan nats.Status) error {
	j := f.journal
	if j.nc.IsClosed() {
		return fmt.Errorf("follow %s: %w", j.stream, ErrClosed)
	}
	asking, cancel := context.WithTimeout(ctx, f.timeout.Next())
	list, err := j.extents(asking)
	cancel()
	switch {
	case errors.Is(err, ErrNoStream):
		return err
	case err != nil:
		return reattach(err)
	}
	state := whole(list).State
	f.replicas = state.Replicas // unchanged while the server does not respond
	switch {
	case state.Last+1 < f.next:
		return fmt.Errorf("follow %s after %d: %w: it ends at %d", j.stream, f.next-1, ErrTruncated, state.Last)
	case state.Last < f.last:
		return fmt.Errorf("replay %s up to %d: %w: it ends at %d", j.stream, f.last, ErrTruncated, state.Last)
	case state.First > f.next && j.older == nil:
		return fmt.Errorf("follow %s after %d: %w: it begins at %d", j.stream, f.next-1, ErrGap, state.First)
	}
	f.begin(state)
	if state.First > f.next {
		return f.readOlder(ctx, state.First-1)
	}
	e := extentWith(list, f.next)
	if e.closing && f.next > e.Last {
		return reattach(errClosed)
	}
	// The files still hold deleted messages. Our streams allow deletion only by purges.
	gapless := e.Messages == 0 || e.Messages == e.info.State.Last+1-e.First
	if j.files != nil && gapless && !f.unreadable {
		return f.readFiles(ctx, e.name, status)
	}
	f.unreadable = false // retry the files after this consumer
	return f.consume(ctx, e.name, status)
}

// errClosed: the generation has ended, or is about to.
var errClosed = errors.New("the next message is in the next generation")

// take handles a message of a stream.
func (f *follower) take(ctx context.Context, stream string, m Message) error {
	if err := f.handle(ctx, m); err != nil {
		return err
	}
	if err := f.advance(); err != nil {
		return err
	}
	if closes(stream, m.Subject) {
		return reattach(errClosed)
	}
	return nil
}

// begin sets the goal from the stream's first state.
func (f *follower) begin(state State) {
	if !f.ready {
		f.ready, f.start, f.goal = true, f.next, state.Last
		if f.last > 0 {
			f.goal = f.last
		}
		if f.next > f.goal {
			f.reportCaughtUp()
		}
	}
}

// reportCaughtUp reports that the goal has been handled. It is called once.
func (f *follower) reportCaughtUp() {
	if f.progress != nil {
		f.progress(f.next-f.start, f.goal+1-f.start)
	}
	if f.caughtUp != nil {
		f.caughtUp()
		f.caughtUp = nil
	}
}

// advance moves the position past a message.
func (f *follower) advance() error {
	f.next++
	switch done := f.next - f.start; {
	case f.next == f.goal+1:
		f.reportCaughtUp()
	case f.next <= f.goal && done%progressEvery == 0 && f.progress != nil:
		f.progress(done, f.goal+1-f.start)
	}
	if f.last > 0 && f.next > f.last {
		return errReplayed
	}
	return nil
}

const (
	// heartbeat is the interval of idle heartbeats from the server: the client's minimum. The consumer is abandoned after two
	// missed ones.
	heartbeat = 500 * time.Millisecond
	// inactive is the time after which the server deletes a consumer without requests for messages, as while a handler is slow.
	inactive = time.Minute
	// windowMessages and windowBytes bound one request for messages. At most one more is in flight.
	windowMessages = 4096
	windowBytes    = 16 << 20
	// overheadBytes is the maximum size of a message beyond its payload.
	overheadBytes = 64 << 10
)

// consume follows a stream by a consumer until an error: an ephemeral one in the server's memory, which is pulled as messages are
// handled. It works like the ordered consumer of nats.go, without its resets: that one recreates its consumer itself after a
// fault, so it would continue in a stream that has become shorter, and its stop waits up to 10 s for an unresponsive server.
// Here run asks for the state of the stream first.
func (f *follower) consume(ctx context.Context, stream string, status <-chan nats.Status) (err error) {
	j := f.journal
	consumer, err := f.makeConsumer(ctx, stream)
	if err != nil {
		return reattach(err)
	}
	// Without waiting for a response: the server deletes an idle consumer by itself.
	defer func() { _ = j.nc.Publish(apiPrefix+"CONSUMER.DELETE."+stream+"."+consumer.CachedInfo().Name, nil) }()
	var (
		ended    = make(chan error, 1)
		handling sync.Mutex // held while a message is handled
		over     bool       // no further message is handled
		failed   error      // error of the last message
		consumed uint64
	)
	end := func(err error) {
		select {
		case ended <- err:
		default: // canceled
		}
	}
	messages, err := consumer.Consume(func(m jetstream.Msg) {
		handling.Lock()
		defer handling.Unlock()
		if over {
			return
		}
		consumed++
		if failed = f.deliver(ctx, stream, m, consumed); failed != nil {
			over = true
			end(failed)
		}
	},
		jetstream.PullMaxMessagesWithBytesLimit(windowMessages, max(windowBytes, int(j.nc.MaxPayload())+overheadBytes)),
		jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { end(reattach(err)) }),
	)
	if err != nil {
		return reattach(err)
	}
	defer func() {
		messages.Stop()
		handling.Lock() // waits for the handler
		defer handling.Unlock()
		over = true
		err = cmp.Or(failed, err)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case s := <-status:
		return j.statusError(s) // messages sent during the disconnect are lost
	}
}

// deliver handles a message of a stream's consumer, its consumed-th.
func (f *follower) deliver(ctx context.Context, stream string, m jetstream.Msg, consumed uint64) error {
	at, err := m.Metadata()
	switch {
	case err != nil:
		return reattach(fmt.Errorf("message without position: %w", err))
	case at.Sequence.Consumer != consumed:
		return reattach(errors.New("messages were lost in transit"))
	case at.Sequence.Stream != f.next:
		err := fmt.Errorf("follow %s: %w: got %d, want %d", f.journal.stream, ErrGap, at.Sequence.Stream, f.next)
		if f.journal.older != nil {
			err = fmt.Errorf("%w: %w", errSkipped, err)
		}
		return err
	}
	return f.take(ctx, stream, Message{Sequence: f.next, Time: at.Timestamp.UTC(), Subject: m.Subject(), Data: m.Data(), Header: m.Headers()})
}

// makeConsumer creates a consumer of a stream that begins with the next message.
func (f *follower) makeConsumer(ctx context.Context, stream string) (jetstream.Consumer, error) {
	j := f.journal
	js, err := jetstream.New(j.nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout.Next())
	defer cancel()
	return js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Description:       j.nc.Opts.Name + " on " + hostname() + " follows this journal",
		Metadata:          map[string]string{"quire-client": j.nc.Opts.Name, "quire-host": hostname()},
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       f.next,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: inactive,
		Replicas:          1,
		MemoryStorage:     true,
	})
}

// hostname is the name of the machine, or of the pod in Kubernetes.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "an unknown host"
	}
	return name
}

// statusError is the error that ends a follower after a reconnect or a permanent close.
func (j *Journal) statusError(s nats.Status) error {
	if s == nats.CLOSED {
		return fmt.Errorf("follow %s: %w", j.stream, ErrClosed)
	}
	return reattach(nats.ErrDisconnected)
}
