package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/wait"
)

const (
	// heartbeat is how often the server sends a sign of life where it has no messages to send.
	heartbeat = 250 * time.Millisecond
	// silentBeats is after how many heartbeats without a sign of life the consumer is given up.
	silentBeats = 4
	// inactive is after how long the server drops a consumer without a reader.
	inactive = 5 * time.Second
	// confirmations is how often, 200 ms apart, a stream must be seen too short or
	// missing before that is an error: a server that was just elected may still
	// be applying the messages that its quorum holds.
	confirmations = 6
	// confirmationsReplicated is the same for a stream of several replicas: a
	// leader that was cut off from them notices it after 10 s.
	confirmationsReplicated = 60
	confirmWait             = 200 * time.Millisecond
	// progressEvery is how many messages lie between two reports.
	progressEvery = 1024
)

// doubts is how often a stream of so many replicas must be seen too short.
func doubts(replicas int) int {
	if replicas > 1 {
		return confirmationsReplicated
	}
	return confirmations
}

// FollowOptions are the optional reports of Follow.
type FollowOptions struct {
	// CaughtUp is called once, when all messages that the stream held at the start
	// of Follow have been handled; at once if there were none.
	CaughtUp func()
	// Progress is called every 1,024 messages while catching up, and at the end of it.
	Progress func(done, total uint64)
}

// Follow calls handle with every message after the sequence from, in order,
// without gap or repeat, until ctx ends or handle fails; it returns that error.
// One call of handle runs at a time, and none after Follow has returned. A slow
// handler slows the server down.
//
// Follow goes on after a lost connection, a restart of the server and the loss
// of its consumer. Errors: ErrGap if messages that should follow are gone,
// ErrTruncated if the stream ends before from, ErrNoStream, and ErrClosed if the
// connection was closed for good.
func (j *Journal) Follow(ctx context.Context, from uint64, handle func(context.Context, Message) error, opts FollowOptions) error {
	f := &follower{journal: j, handle: handle, next: from + 1, progress: opts.Progress, caughtUp: opts.CaughtUp}
	return f.run(ctx)
}

// Replay calls handle with the messages after from up to and including to, in
// order, and returns. progress may be nil. Errors are those of Follow, and
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

// errReplayed ends a replay that has come to its last message.
var errReplayed = errors.New("replayed")

// follower is one Follow or Replay. Its position belongs to the goroutine of the
// subscription while one is attached, and to run otherwise.
type follower struct {
	journal  *Journal
	handle   func(context.Context, Message) error
	progress func(done, total uint64)
	caughtUp func()

	next  uint64 // sequence of the message to be handled next
	last  uint64 // sequence to stop after, 0: never
	start uint64 // next at the start
	goal  uint64 // the stream's last sequence at the start, or last
	ready bool   // goal has been set

	unreadable bool // its files do not have a message that they should have

	replicas int // of the stream, as its leader said last; 0: not known

	// patience is how long to wait for the server when attaching. It is short at
	// first, since a question that was lost with its connection is never answered.
	patience wait.Backoff
}

func (f *follower) run(ctx context.Context) error {
	status := f.journal.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer f.journal.nc.RemoveStatusListener(status)
	retry := wait.Backoff{First: 10 * time.Millisecond, Most: time.Second}
	f.patience = wait.Backoff{First: time.Second, Most: apiWait}
	for doubted := 0; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		before := f.next
		err := f.once(ctx, status)
		if f.next > before {
			retry.Reset()
			f.patience.Reset()
			doubted = 0
		}
		switch {
		case errors.Is(err, errReplayed):
			return nil
		case errors.Is(err, errReattach):
		case errors.Is(err, ErrTruncated) || errors.Is(err, ErrNoStream):
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

// errReattach asks run to attach once more; the cause is wrapped beside it.
var errReattach = errors.New("attach again")

func reattach(cause error) error { return fmt.Errorf("%w: %w", errReattach, cause) }

// once attaches to the stream and delivers until something ends it.
func (f *follower) once(ctx context.Context, status <-chan nats.Status) error {
	j := f.journal
	if j.nc.IsClosed() {
		return fmt.Errorf("follow %s: %w", j.stream, ErrClosed)
	}
	asking, cancel := context.WithTimeout(ctx, f.patience.Next())
	state, err := j.State(asking)
	cancel()
	if err == nil {
		f.replicas = state.Replicas // a server that does not answer takes nothing back of what it said
	}
	switch {
	case errors.Is(err, ErrNoStream):
		return err
	case err != nil:
		return reattach(err)
	case state.Last+1 < f.next:
		return fmt.Errorf("follow %s after %d: %w: it ends at %d", j.stream, f.next-1, ErrTruncated, state.Last)
	case state.Last < f.last:
		return fmt.Errorf("replay %s up to %d: %w: it ends at %d", j.stream, f.last, ErrTruncated, state.Last)
	case state.First > f.next:
		return fmt.Errorf("follow %s after %d: %w: it begins at %d", j.stream, f.next-1, ErrGap, state.First)
	}
	if !f.ready {
		f.ready, f.start, f.goal = true, f.next, state.Last
		if f.last > 0 {
			f.goal = f.last
		}
		if f.next > f.goal {
			f.reached()
		}
	}
	// The files still have messages that were deleted. Our streams refuse that, but for purges.
	whole := state.Messages == 0 || state.Messages == state.Last+1-state.First
	if j.files != nil && whole && !f.unreadable {
		return f.readFiles(ctx, status)
	}
	f.unreadable = false // they are tried again after this consumer
	a := &attachment{f: f, ctx: ctx, ended: make(chan error, 1)}
	return a.run(status)
}

// reached reports that the goal has been handled. It is called once.
func (f *follower) reached() {
	if f.progress != nil {
		f.progress(f.next-f.start, f.goal+1-f.start)
	}
	if f.caughtUp != nil {
		f.caughtUp()
		f.caughtUp = nil
	}
}

// handled moves the position past a message.
func (f *follower) handled() error {
	f.next++
	switch done := f.next - f.start; {
	case f.next == f.goal+1:
		f.reached()
	case f.next <= f.goal && done%progressEvery == 0 && f.progress != nil:
		f.progress(done, f.goal+1-f.start)
	}
	if f.last > 0 && f.next > f.last {
		return errReplayed
	}
	return nil
}

// attachment is the life of one consumer: an ephemeral push consumer in the
// server's memory. The goroutine of its subscription handles the messages. It
// also answers flow control, in its place among the messages, so that a slow
// handler slows the server down and no message is dropped.
type attachment struct {
	f     *follower
	ctx   context.Context
	busy  atomic.Bool   // a message is being handled
	seen  atomic.Uint64 // counts the signs of life
	ended chan error    // receives the reason once

	handling sync.Mutex // held while a message is handled
	done     bool       // no further message is handled
	consumed uint64     // sequence of the consumer's last message
}

func (a *attachment) run(status <-chan nats.Status) error {
	j := a.f.journal
	inbox := j.nc.NewInbox()
	sub, err := j.nc.Subscribe(inbox, a.receive)
	if err != nil {
		return reattach(err)
	}
	defer func() {
		_ = sub.Unsubscribe() // fails only where the connection has closed it
		a.handling.Lock()     // waits for the handler
		a.done = true
		a.handling.Unlock()
	}()
	// The server's flow control bounds the messages that wait here.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return reattach(err)
	}
	name := inbox[strings.LastIndexByte(inbox, '.')+1:]
	creating, cancel := context.WithTimeout(a.ctx, a.f.patience.Next())
	err = a.create(creating, name, inbox)
	cancel()
	if err != nil {
		return reattach(err)
	}
	// No answer is awaited: the server drops an idle consumer by itself.
	defer func() { _ = j.nc.Publish(apiPrefix+"CONSUMER.DELETE."+j.stream+"."+name, nil) }()
	return a.watch(status)
}

// create makes the consumer that delivers to inbox.
func (a *attachment) create(ctx context.Context, name, inbox string) error {
	j := a.f.journal
	request := map[string]any{
		"stream_name": j.stream,
		"config": map[string]any{
			"name":               name,
			"description":        j.nc.Opts.Name + " on " + hostname() + " follows this journal",
			"metadata":           map[string]string{"quire-client": j.nc.Opts.Name, "quire-host": hostname()},
			"deliver_subject":    inbox,
			"deliver_policy":     "by_start_sequence",
			"opt_start_seq":      a.f.next,
			"ack_policy":         "none",
			"max_deliver":        1,
			"replay_policy":      "instant",
			"flow_control":       true,
			"idle_heartbeat":     heartbeat,
			"inactive_threshold": inactive,
			"num_replicas":       1,
			"mem_storage":        true,
		},
	}
	var answer struct {
		Error *apiError `json:"error"`
	}
	if err := j.ask(ctx, "CONSUMER.CREATE."+j.stream+"."+name, request, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return j.refused("create consumer of", answer.Error)
	}
	return nil
}

// hostname is the name of the machine, which is that of the pod in Kubernetes.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "an unknown host"
	}
	return name
}

// watch returns when the attachment has ended, the connection was renewed, or the
// server was silent for too long.
func (a *attachment) watch(status <-chan nats.Status) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var last uint64
	silent := 0
	for {
		select {
		case err := <-a.ended:
			return err
		case <-a.ctx.Done():
			return a.ctx.Err()
		case s := <-status:
			return a.f.journal.renewed(s) // messages sent while there was no connection are lost
		case <-beat.C:
			seen := a.seen.Load()
			if seen != last || a.busy.Load() {
				last, silent = seen, 0
				continue
			}
			if silent++; silent >= silentBeats {
				return reattach(nats.ErrConsumerNotActive)
			}
		}
	}
}

// renewed is why a follower ends where its connection was renewed, or closed for good.
func (j *Journal) renewed(s nats.Status) error {
	if s == nats.CLOSED {
		return fmt.Errorf("follow %s: %w", j.stream, ErrClosed)
	}
	return reattach(nats.ErrDisconnected)
}

// receive runs on the subscription's goroutine.
func (a *attachment) receive(m *nats.Msg) {
	a.seen.Add(1)
	a.handling.Lock()
	defer a.handling.Unlock()
	if a.done {
		return
	}
	var err error
	if len(m.Data) == 0 && m.Header.Get("Status") != "" {
		err = a.control(m)
	} else {
		a.busy.Store(true)
		err = a.deliver(m)
		a.busy.Store(false)
	}
	if err != nil {
		a.done = true
		a.ended <- err
	}
}

// control answers flow control. A heartbeat shows whether messages were lost.
func (a *attachment) control(m *nats.Msg) error {
	if m.Header.Get("Status") != "100" {
		return reattach(fmt.Errorf("consumer ended: %s", m.Header.Get("Description")))
	}
	reply := m.Reply
	if reply == "" {
		reply = m.Header.Get("Nats-Consumer-Stalled")
	}
	if reply != "" {
		if err := a.f.journal.nc.Publish(reply, nil); err != nil {
			return reattach(err)
		}
	}
	if sent := m.Header.Get("Nats-Last-Consumer"); sent != "" && sent != strconv.FormatUint(a.consumed, 10) {
		return reattach(errors.New("messages were lost on the way"))
	}
	return nil
}

func (a *attachment) deliver(m *nats.Msg) error {
	f := a.f
	at, ok := parseDelivery(m.Reply)
	if !ok {
		return reattach(fmt.Errorf("message without position: %q", m.Reply))
	}
	a.consumed++
	if at.consumer != a.consumed {
		return reattach(errors.New("messages were lost on the way"))
	}
	if at.stream != f.next {
		return fmt.Errorf("follow %s: %w: %d came where %d should", f.journal.stream, ErrGap, at.stream, f.next)
	}
	err := f.handle(a.ctx, Message{
		Sequence: at.stream,
		Time:     time.Unix(0, at.nanos).UTC(),
		Subject:  m.Subject,
		Data:     m.Data,
	})
	if err != nil {
		return err
	}
	return f.handled()
}

// delivery is the content of a delivered message's reply subject.
type delivery struct {
	stream, consumer uint64
	nanos            int64
}

// parseDelivery reads $JS.ACK.<stream>.<consumer>.<delivered>.<stream
// sequence>.<consumer sequence>.<time>.<pending>, or the same with domain and
// account after ACK and possibly more tokens at the end.
func parseDelivery(reply string) (delivery, bool) {
	const prefix = "$JS.ACK."
	if !strings.HasPrefix(reply, prefix) {
		return delivery{}, false
	}
	skip := 3
	if strings.Count(reply, ".") >= 10 {
		skip = 5
	}
	rest := reply[len(prefix):]
	for range skip {
		_, after, ok := strings.Cut(rest, ".")
		if !ok {
			return delivery{}, false
		}
		rest = after
	}
	var numbers [3]uint64
	for i := range numbers {
		token, after, _ := strings.Cut(rest, ".")
		n, err := strconv.ParseUint(token, 10, 64)
		if err != nil {
			return delivery{}, false
		}
		numbers[i], rest = n, after
	}
	return delivery{stream: numbers[0], consumer: numbers[1], nanos: int64(numbers[2])}, true
}
