package s3

import (
	"context"
	"errors"
	"io"
	"time"

	"quire.dev/pkg/blob/internal/source"
)

var errIdle = errors.New("the server was silent for too long")

// idle ends its context when the server is silent for too long. Only the time between start and stop counts, so that a slow
// caller is not mistaken for a slow server.
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

// reader reads the body of a response.
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
	// idle.close has ended the request, so this error is meaningless.
	_ = r.body.Close()
	return nil
}

// firstBytes is the initial size of a part's buffer.
const firstBytes = 64 << 10

// part holds one part of a blob at a time. Its buffer grows with the bytes received, to at most 16 times their number, so that
// a slow reader takes little memory.
type part struct {
	buffer []byte
	spare  buffers
}

// next reads the next part and reports whether it is the last. It checks ctx after the last read, so that nothing becomes
// visible after the caller has given up.
func (p *part) next(ctx context.Context, from *source.Reader) (data []byte, last bool, err error) {
	for n := 0; ; {
		if n == partBytes {
			return p.buffer, false, ctx.Err()
		}
		if n == len(p.buffer) {
			p.grow()
		}
		read, err := io.ReadFull(from, p.buffer[n:])
		n += read
		switch {
		case from.Err() != nil:
			return nil, false, from.Err()
		case err != nil:
			return p.buffer[:n], true, ctx.Err()
		}
	}
}

func (p *part) grow() {
	larger := p.spare.take(min(max(16*len(p.buffer), firstBytes), partBytes))
	copy(larger, p.buffer)
	p.buffer = larger
}

// give returns the buffer for reuse.
func (p *part) give() { p.spare.give(p.buffer) }

// buffers is a free list of full-size part buffers.
type buffers chan []byte

func (b buffers) take(size int) []byte {
	if size == partBytes {
		select {
		case buffer := <-b:
			return buffer
		default:
		}
	}
	return make([]byte, size)
}

func (b buffers) give(buffer []byte) {
	if len(buffer) != partBytes {
		return
	}
	select {
	case b <- buffer:
	default:
	}
}
