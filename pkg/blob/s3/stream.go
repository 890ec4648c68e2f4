package s3

import (
	"context"
	"errors"
	"io"
	"time"
)

var errIdle = errors.New("the server sent nothing for too long")

// idle ends its context when the server is silent for too long. Only the time between start and stop counts, so that a
// slow caller is not taken for a slow server.
type idle struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

func newIdle(ctx context.Context, timeout time.Duration) *idle {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(errIdle) })
	timer.Stop()
	return &idle{ctx: ctx, cancel: cancel, timer: timer, timeout: timeout}
}

func (i *idle) start() { i.timer.Reset(i.timeout) }
func (i *idle) stop()  { i.timer.Stop() }

// close frees the timer and ends the context.
func (i *idle) close() {
	i.timer.Stop()
	i.cancel(nil)
}

// cause adds errIdle to err if the server's silence caused it.
func (i *idle) cause(err error) error {
	if errors.Is(context.Cause(i.ctx), errIdle) {
		return errors.Join(errIdle, err)
	}
	return err
}

// reader reads the body of an answer.
type reader struct {
	store *Store
	ctx   context.Context // the caller's
	idle  *idle
	key   string
	body  io.ReadCloser
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, r.store.fault(r.ctx, "read", r.key, err)
	}
	r.idle.start()
	n, err := r.body.Read(p)
	r.idle.stop()
	if err != nil && err != io.EOF {
		return n, r.store.fault(r.ctx, "read", r.key, r.idle.cause(err))
	}
	return n, err
}

// Close implements io.Closer. It does not wait for the rest of the body.
func (r *reader) Close() error {
	r.idle.close()
	// idle.close has ended the request, so this error says nothing.
	_ = r.body.Close()
	return nil
}

// buffers hands out a bounded number of part buffers, made when first needed.
type buffers chan []byte

func newBuffers(count int) buffers {
	all := make(buffers, count)
	for range count {
		all <- nil
	}
	return all
}

// take waits for a buffer until ctx ends.
func (b buffers) take(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case buffer := <-b:
		if buffer == nil {
			buffer = make([]byte, partBytes)
		}
		return buffer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// give makes a buffer available again. drop makes room for a new one in its place.
func (b buffers) give(buffer []byte) { b <- buffer }
func (b buffers) drop()              { b <- nil }
