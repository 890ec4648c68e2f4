package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Bounds of waiting requests.
const (
	// queuePerWorker is the length of Serve's queue per handler.
	queuePerWorker = 64
	// Bounds of requests that the server has not read from the connection yet. More are lost, and their callers time out.
	pendingMessages = 8192
	pendingBytes    = 128 << 20
)

// Option configures a server.
type Option func(*Server)

// WithLogger logs panics and answers that could not be sent.
func WithLogger(l *slog.Logger) Option {
	return func(s *Server) { s.logger = l }
}

// Server answers the requests of one subject until Drain.
type Server struct {
	nc      *nats.Conn
	logger  *slog.Logger
	sub     *nats.Subscription
	closed  chan struct{} // closed once the subscription has delivered its last request
	queue   chan *Request // nil for ServeBatch
	stop    chan struct{} // closed: workers end once the queue is empty
	workers sync.WaitGroup
	base    context.Context // of all handlers
	cancel  context.CancelFunc
}

// Request is a message whose sender waits for an answer.
type Request struct {
	// Payload belongs to the handler.
	Payload []byte
	// Deadline is when the caller gives up, by this machine's clock.
	Deadline time.Time

	nc    *nats.Conn
	reply string
}

// Reply answers. A batch may be answered in several messages. The payload may be reused once Reply has returned. Safe for
// concurrent use, even after the handler has returned. An error means that the answer was not sent.
func (r *Request) Reply(payload []byte) error {
	if err := r.nc.Publish(r.reply, payload); err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// Fail answers with an error: an *Error unchanged, and any other with CodeInternal.
func (r *Request) Fail(err error) error {
	e := &Error{Code: CodeInternal, Message: err.Error()}
	errors.As(err, &e)
	m := &nats.Msg{Subject: r.reply, Data: []byte(e.Message), Header: nats.Header{errorHeader: {e.Code}}}
	if err := r.nc.PublishMsg(m); err != nil {
		return fmt.Errorf("answer with error: %w", err)
	}
	return nil
}

// Serve answers calls on subject with up to concurrency handlers at a time. Servers with the same queue share the calls. A
// handler's context ends at the caller's deadline. A panic is answered with CodeInternal. Expired requests are dropped, and
// requests that find the queue full are answered with CodeBusy.
func Serve(nc *nats.Conn, subject, queue string, concurrency int, handle func(ctx context.Context, payload []byte) ([]byte, error), options ...Option) (*Server, error) {
	concurrency = max(concurrency, 1)
	s := newServer(nc, options)
	s.queue = make(chan *Request, concurrency*queuePerWorker)
	for range concurrency {
		s.workers.Go(func() {
			for r := s.next(); r != nil; r = s.next() {
				s.answer(r, handle)
			}
		})
	}
	err := s.subscribe(subject, queue, func(r *Request) {
		select {
		case s.queue <- r:
		default:
			_ = r.Fail(&Error{Code: CodeBusy, Message: "the server's queue is full"}) // an unsent answer times out
		}
	})
	if err != nil {
		close(s.stop)
		s.workers.Wait()
		return nil, err
	}
	return s, nil
}

// ServeBatch calls handle with each request on subject, one after another, on the receiving goroutine. So handle must not block
// for long: it may keep the request and answer it from another goroutine. A panic is answered with CodeInternal.
func ServeBatch(nc *nats.Conn, subject, queue string, handle func(*Request), options ...Option) (*Server, error) {
	s := newServer(nc, options)
	err := s.subscribe(subject, queue, func(r *Request) {
		defer s.recovered(r)
		handle(r)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func newServer(nc *nats.Conn, options []Option) *Server {
	s := &Server{nc: nc, logger: slog.New(slog.DiscardHandler), closed: make(chan struct{}), stop: make(chan struct{})}
	s.base, s.cancel = context.WithCancel(context.Background())
	for _, option := range options {
		option(s)
	}
	return s
}

func (s *Server) subscribe(subject, queue string, take func(*Request)) error {
	receive := func(m *nats.Msg) {
		if m.Reply == "" || Redirected(m) {
			return // no reply wanted, or not sent by a client
		}
		take(&Request{Payload: m.Data, Deadline: time.Now().Add(timeoutOf(m)), nc: s.nc, reply: m.Reply})
	}
	sub, err := s.nc.QueueSubscribe(subject, queue, receive)
	if err != nil {
		return fmt.Errorf("serve %s: %w", subject, err)
	}
	s.sub = sub
	sub.SetClosedHandler(func(string) { close(s.closed) })
	if err := sub.SetPendingLimits(pendingMessages, pendingBytes); err != nil {
		_ = sub.Unsubscribe() // fails only if already closed
		return fmt.Errorf("serve %s: %w", subject, err)
	}
	return nil
}

// Redirected reports whether the message was delivered by a stream's consumer instead of published by a client. Anyone
// who may create a consumer may have it deliver to any subject, even to ones that its user may not publish to. NATS
// refuses clients' messages with such a reply subject, so the mark can't be omitted.
func Redirected(m *nats.Msg) bool { return strings.HasPrefix(m.Reply, "$JS.ACK.") }

func timeoutOf(m *nats.Msg) time.Duration {
	if m.Header == nil {
		return DefaultTimeout
	}
	ms, err := strconv.ParseUint(m.Header.Get(timeoutHeader), 10, 32)
	if err != nil || ms == 0 {
		return DefaultTimeout
	}
	return time.Duration(ms) * time.Millisecond
}

func (s *Server) answer(r *Request, handle func(context.Context, []byte) ([]byte, error)) {
	if !time.Now().Before(r.Deadline) {
		return // the caller has given up
	}
	defer s.recovered(r)
	ctx, cancel := context.WithDeadline(s.base, r.Deadline)
	defer cancel()
	payload, err := handle(ctx, r.Payload)
	switch {
	case err == nil:
		err = r.Reply(payload)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return // so the caller gets ErrTimeout: an error would say that the request was not executed
	default:
		err = r.Fail(err)
	}
	if err != nil {
		s.logger.Warn("request was not answered", "subject", s.sub.Subject, "error", err)
	}
}

// recovered answers a panic of a handler, which concerns one request and must not end the process.
func (s *Server) recovered(r *Request) {
	v := recover()
	if v == nil {
		return
	}
	s.logger.Error("handler panicked", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	_ = r.Fail(&Error{Code: CodeInternal, Message: "the handler panicked"}) // an unsent answer times out
}

// Drain accepts no more requests and waits until the accepted ones are answered. If ctx ends first, Drain cancels the contexts
// of the handlers, still waits for them, and returns ctx.Err(). It must be called once.
func (s *Server) Drain(ctx context.Context) error {
	defer s.cancel()
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	s.drain(ctx)
	close(s.stop)
	s.workers.Wait()
	return ctx.Err()
}

// Stop drains the servers one after the other, within a time limit for all. A server logs requests that are cut off.
func Stop(within time.Duration, servers ...*Server) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for _, s := range servers {
		if err := s.Drain(ctx); err != nil {
			s.logger.Warn("requests were cut off by the shutdown", "subject", s.sub.Subject, "error", err)
		}
	}
}

// drain ends the subscription once all requests that NATS has sent are received. If the connection is lost meanwhile, the
// subscription ends at once: after a reconnect the client would subscribe again without a goroutine that reads, and lose
// requests for the rest of the process.
func (s *Server) drain(ctx context.Context) {
	lost := s.nc.StatusChanged(nats.RECONNECTING, nats.DISCONNECTED, nats.CLOSED)
	defer s.nc.RemoveStatusListener(lost)
	if s.nc.IsConnected() && s.sub.Drain() == nil {
		select {
		case <-s.closed:
			return
		case <-lost:
		case <-ctx.Done():
		}
	}
	_ = s.sub.Unsubscribe() // fails only if already closed
}

// next returns the next request, or nil when a worker must end.
func (s *Server) next() *Request {
	select {
	case r := <-s.queue:
		return r
	default:
	}
	select {
	case r := <-s.queue:
		return r
	case <-s.stop:
	}
	select {
	case r := <-s.queue:
		return r
	default:
		return nil
	}
}
