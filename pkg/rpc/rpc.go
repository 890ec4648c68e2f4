// Package rpc sends requests over NATS and answers them: single calls, and batches that merge all requests waiting for one
// subject. A request carries its caller's remaining time. An answer carries a payload, or an error with a code and a message.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/wait"
)

// Errors to branch on with errors.Is. An answer that is an error is *Error.
var (
	// ErrUnavailable: no server serves the subject, or there is no connection. The request was not executed.
	ErrUnavailable = errors.New("no server for the request")
	// ErrTimeout: no answer came in time. The request may have been executed.
	ErrTimeout = errors.New("no answer in time")
	// ErrBusy: too many requests wait in this process. The request was not sent.
	ErrBusy = errors.New("too many requests are waiting")
	// ErrTooLarge: the request does not fit into one message. It was not sent.
	ErrTooLarge = errors.New("request is too large")
	// ErrClosed: the batcher or its connection is closed. A request already sent may have been executed.
	ErrClosed = errors.New("rpc is closed")
)

// Error codes.
const (
	// CodeInternal: the handler panicked, or its error was not an *Error.
	CodeInternal = "internal"
	// CodeBusy: the server's queue was full. The request was not executed.
	CodeBusy = "busy"
	// CodeUnavailable: a store of the service, or its fold, is unavailable for now. Handlers return it.
	CodeUnavailable = "unavailable"
)

// Error is an answer instead of a payload.
type Error struct {
	Code    string // for programs; one token, no line breaks
	Message string // for operators
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

const (
	// DefaultTimeout bounds a call if neither its context nor its config has a deadline.
	DefaultTimeout = 5 * time.Second

	// timeoutHeader holds the caller's remaining milliseconds. A duration needs no synchronized clocks.
	timeoutHeader = "Quire-Timeout"
	// errorHeader holds the code of an error, whose message is the payload.
	errorHeader = "Quire-Error"

	// Pauses between two attempts while no server serves the subject.
	initialPause = 5 * time.Millisecond
	maxPause     = 250 * time.Millisecond
	// lastAttempt is the time that must be left for another attempt. An attempt cut short by the deadline would turn
	// ErrUnavailable into ErrTimeout.
	lastAttempt = 20 * time.Millisecond
)

// Call sends one request and waits for its answer until ctx ends, or for DefaultTimeout if ctx has no deadline. While no server
// serves the subject it retries. Errors: *Error from the handler, ErrUnavailable, ErrTimeout, ErrTooLarge, ErrClosed, and
// ctx.Err() if ctx was canceled, when the request may have been executed.
func Call(ctx context.Context, nc *nats.Conn, subject string, payload []byte) ([]byte, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	backoff := wait.Backoff{Initial: initialPause, Max: maxPause}
	for {
		answer, err := attempt(ctx, nc, subject, payload)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return answer, err
		}
		pause := backoff.Next()
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < pause+lastAttempt {
			return nil, err
		}
		if !wait.For(ctx, pause) {
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, err
		}
	}
}

// CallOnce is Call with one attempt.
func CallOnce(ctx context.Context, nc *nats.Conn, subject string, payload []byte) ([]byte, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return attempt(ctx, nc, subject, payload)
}

func withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, DefaultTimeout)
}

// attempt sends a request once. ErrUnavailable is certain: the request was not executed.
func attempt(ctx context.Context, nc *nats.Conn, subject string, payload []byte) ([]byte, error) {
	if nc.IsClosed() {
		return nil, fmt.Errorf("call %s: %w", subject, ErrClosed)
	}
	if !nc.IsConnected() {
		return nil, fmt.Errorf("call %s: %w: %w", subject, ErrUnavailable, nats.ErrDisconnected)
	}
	deadline, _ := ctx.Deadline()
	m := &nats.Msg{Subject: subject, Data: payload, Header: timeoutIn(time.Until(deadline))}
	answer, err := nc.RequestMsgWithContext(ctx, m)
	if err == nil {
		return answer.Data, failure(answer)
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), unwritten(err):
		err = errors.Join(ErrUnavailable, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		err = errors.Join(ErrTimeout, err)
	case errors.Is(err, nats.ErrMaxPayload):
		err = errors.Join(ErrTooLarge, err)
	case errors.Is(err, nats.ErrConnectionClosed):
		err = errors.Join(ErrClosed, err)
	}
	return nil, fmt.Errorf("call %s: %w", subject, err)
}

// unwritten reports whether a write to the connection failed. The request was the last part of that write, so the server has
// not received all of it.
func unwritten(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed)
}

func timeoutIn(d time.Duration) nats.Header {
	return nats.Header{timeoutHeader: {strconv.FormatInt(max(d.Milliseconds(), 1), 10)}}
}

// failure returns the error of an answer, or nil.
func failure(m *nats.Msg) error {
	if m.Header == nil {
		return nil
	}
	if code := m.Header.Get(errorHeader); code != "" {
		return &Error{Code: code, Message: string(m.Data)}
	}
	return nil
}

// noResponders reports whether m is the server's notice that the request's subject has no subscribers.
func noResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header != nil && m.Header.Get("Status") == "503"
}

// Gather sends one request to all servers of subject, each in its own queue group, and returns the answers that come until ctx
// ends, or within DefaultTimeout if ctx has no deadline. Later answers and errors are left out. Errors: ErrUnavailable if no
// answer came or there is no connection, ErrTooLarge, ErrClosed.
func Gather(ctx context.Context, nc *nats.Conn, subject string, payload []byte) (answers [][]byte, err error) {
	return GatherUntil(ctx, nc, subject, payload, func([]byte) bool { return false })
}

// GatherUntil is Gather that stops early once enough, called with each answer, returns true.
func GatherUntil(ctx context.Context, nc *nats.Conn, subject string, payload []byte, enough func(answer []byte) bool) (answers [][]byte, err error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	if !nc.IsConnected() && !nc.IsClosed() {
		return nil, fmt.Errorf("ask all of %s: %w: %w", subject, ErrUnavailable, nats.ErrDisconnected)
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask all of %s: %w: %w", subject, ErrClosed, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only if the connection is closed
	deadline, _ := ctx.Deadline()
	request := &nats.Msg{Subject: subject, Reply: inbox, Data: payload, Header: timeoutIn(time.Until(deadline))}
	if err := nc.PublishMsg(request); err != nil {
		kind := ErrUnavailable
		if errors.Is(err, nats.ErrMaxPayload) {
			kind = ErrTooLarge
		}
		return nil, fmt.Errorf("ask all of %s: %w: %w", subject, kind, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil && len(answers) == 0:
			return nil, fmt.Errorf("ask all of %s: %w: no server answered in time", subject, ErrUnavailable)
		case ctx.Err() != nil:
			return answers, nil
		case errors.Is(err, nats.ErrNoResponders), err == nil && noResponders(m):
			return nil, fmt.Errorf("ask all of %s: %w", subject, ErrUnavailable)
		case err != nil:
			return nil, fmt.Errorf("ask all of %s: %w: %w", subject, ErrClosed, err)
		case failure(m) == nil:
			answers = append(answers, m.Data)
			if enough(m.Data) {
				return answers, nil
			}
		}
	}
}
