// Package rpc asks and answers over NATS: single calls, and batches that merge
// all requests that wait for one subject. Requests carry how long the caller
// waits; answers carry a payload, or an error of a code and a message.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Errors to branch on with errors.Is. A refusal by the other side is *Error.
var (
	// ErrUnavailable says that nobody answers to the subject, or that there is
	// no connection; the request was not executed.
	ErrUnavailable = errors.New("no server for the request")
	// ErrTimeout says that no answer came in time; whether the request was
	// executed is unknown.
	ErrTimeout = errors.New("no answer in time")
	// ErrBusy says that too many requests wait here; it was not sent.
	ErrBusy = errors.New("too many requests are waiting")
	// ErrTooLarge says that the request exceeds one message; it was not sent.
	ErrTooLarge = errors.New("request is too large")
	// ErrClosed says that the batcher, or its connection, is closed. Whether a
	// request that had been sent was executed is unknown.
	ErrClosed = errors.New("rpc is closed")
)

// Codes of *Error that this package makes itself.
const (
	// CodeInternal is the code of a handler's error that is no *Error, and of
	// a panic.
	CodeInternal = "internal"
	// CodeBusy says that the server's queue was full; it was not executed.
	CodeBusy = "busy"
)

// Error is what a handler answers instead of a payload.
type Error struct {
	Code    string // for programs; one token, no line breaks
	Message string // for operators
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

const (
	// DefaultTimeout holds where a context, or a request, has no deadline.
	DefaultTimeout = 5 * time.Second

	// timeoutHeader is how many milliseconds the caller still waits. It is a
	// duration, so that the clocks of two machines need not agree.
	timeoutHeader = "Quire-Timeout"
	// errorHeader is the code of an error, whose message is the payload.
	errorHeader = "Quire-Error"

	// Between two attempts to reach a subject that nobody answers to.
	firstPause = 5 * time.Millisecond
	mostPause  = 250 * time.Millisecond
	// lastAttempt is how much time must be left for another one. Cut off by
	// the deadline it would turn "not executed" into "unknown".
	lastAttempt = 20 * time.Millisecond
)

// Call sends one request and waits for its answer, at most until ctx ends, or
// DefaultTimeout where ctx has no deadline. While nobody answers to the
// subject, it tries again. Errors: *Error from the handler, ErrUnavailable,
// ErrTimeout, ErrTooLarge, ErrClosed, and ctx.Err() where ctx was cancelled,
// which leaves unknown whether the request was executed.
func Call(ctx context.Context, nc *nats.Conn, subject string, payload []byte) ([]byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		answer, err := attempt(ctx, nc, subject, payload)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return answer, err
		}
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < pause+lastAttempt {
			return nil, err
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			if errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, err
		}
	}
}

// attempt is ErrUnavailable where the request was surely not executed.
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

// unwritten tells a write that failed. The request was the last of it, so that
// no whole one has left.
func unwritten(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed)
}

func timeoutIn(d time.Duration) nats.Header {
	return nats.Header{timeoutHeader: {strconv.FormatInt(max(d.Milliseconds(), 1), 10)}}
}

// failure is the error that an answer carries, or nil.
func failure(m *nats.Msg) error {
	if m.Header == nil {
		return nil
	}
	if code := m.Header.Get(errorHeader); code != "" {
		return &Error{Code: code, Message: string(m.Data)}
	}
	return nil
}

// noResponders tells the server's notice that nobody got the request.
func noResponders(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header != nil && m.Header.Get("Status") == "503"
}

// CallOnce is Call without another attempt where nobody answers to the subject.
func CallOnce(ctx context.Context, nc *nats.Conn, subject string, payload []byte) ([]byte, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	return attempt(ctx, nc, subject, payload)
}

// Gather sends one request to all who serve subject, each under a queue of its
// own, and returns the answers that come until ctx ends, or DefaultTimeout
// where it has no deadline: who is not heard by then is left out, and so is who
// answers with an error. Errors: ErrUnavailable where nobody answers to the
// subject, or there is no connection, ErrTooLarge, ErrClosed.
func Gather(ctx context.Context, nc *nats.Conn, subject string, payload []byte) (answers [][]byte, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	if !nc.IsConnected() && !nc.IsClosed() {
		return nil, fmt.Errorf("ask all of %s: %w: %w", subject, ErrUnavailable, nats.ErrDisconnected)
	}
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask all of %s: %w: %w", subject, ErrClosed, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only where the connection is closed
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
			return nil, fmt.Errorf("ask all of %s: %w: nobody was heard in time", subject, ErrUnavailable)
		case ctx.Err() != nil:
			return answers, nil
		case errors.Is(err, nats.ErrNoResponders), err == nil && noResponders(m):
			return nil, fmt.Errorf("ask all of %s: %w", subject, ErrUnavailable)
		case err != nil:
			return nil, fmt.Errorf("ask all of %s: %w: %w", subject, ErrClosed, err)
		case failure(m) == nil:
			answers = append(answers, m.Data)
		}
	}
}
