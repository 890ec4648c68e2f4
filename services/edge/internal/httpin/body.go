package httpin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// hideBody makes fasthttp believe that there is no body, so that it leaves the body on the connection and doesn't answer
// Expect: 100-continue. It is fasthttp.Server.HeaderReceived.
func hideBody(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if length := h.ContentLength(); length > 0 || length == -1 {
		h.SetContentLength(0)
	}
	if len(h.Peek(fiber.HeaderExpect)) > 0 {
		h.Del(fiber.HeaderExpect)
	}
	return fasthttp.RequestConfig{}
}

// Body is the body of one request, read from its connection. One goroutine reads it, while the handler runs.
type Body struct {
	c        *conn
	length   int64  // -1: chunked
	expect   bool   // the client waits for 100 Continue
	ahead    []byte // read ahead by BodyExceeds
	done     bool
	clock    bodyClock
	chunks   chunks // state of a chunked body
	limit    Limit  // 0 bytes: none
	tooLarge func() error
	err      error
}

// BodyOf returns the body of the request, nil without one.
func BodyOf(c *fiber.Ctx) *Body { return connOf(c).body }

// Length is the announced length, -1 for a chunked body.
func (b *Body) Length() int64 { return b.length }

// Limit rejects a body longer than bytes with tooLarge's error: at once if its length is announced, or at the chunk that
// exceeds it.
func (b *Body) Limit(bytes int64, tooLarge func() error) error {
	b.limit, b.tooLarge = Limit{Bytes: bytes}, tooLarge
	if b.length > bytes {
		return tooLarge()
	}
	return nil
}

// tooLargeError is the error of a body over its limit.
func (b *Body) tooLargeError() error {
	if b.tooLarge != nil {
		return b.tooLarge()
	}
	return b.limit.tooLarge()
}

// openBody sets the body of the running request.
func (c *conn) openBody() {
	length := c.head.length
	if c.head.chunked {
		length = -1
	}
	c.body = nil
	if length == 0 {
		return
	}
	c.body = &Body{c: c, length: length, expect: c.head.expect}
	c.body.clock.opened = time.Now()
}

// bodyClock measures how fast a body arrives. Only the time spent waiting for the client counts. One goroutine reads the
// body; the budget reads the clock concurrently.
type bodyClock struct {
	opened time.Time
	read   atomic.Int64 // bytes
	waited atomic.Int64 // nanoseconds of finished reads
	since  atomic.Int64 // start of the running read, in nanoseconds after opened; 0: none
	cut    atomic.Bool
}

// begin starts a read that may block, and returns its deadline.
func (c *bodyClock) begin(grace time.Duration) time.Time {
	now := time.Now()
	c.since.Store(max(int64(now.Sub(c.opened)), 1))
	return now.Add(c.allowance(grace, minBodyRate) - time.Duration(c.waited.Load()))
}

func (c *bodyClock) end() { c.waited.Add(int64(time.Since(c.opened)) - c.since.Swap(0)) }

// bodyWait is the time spent waiting for the running request's body.
func (c *conn) bodyWait() time.Duration {
	if c.body == nil {
		return 0
	}
	return time.Duration(c.body.clock.waited.Load())
}

// allowance is the total waiting time granted for the bytes so far.
func (c *bodyClock) allowance(grace time.Duration, rate time.Duration) time.Duration {
	return grace + time.Duration(c.read.Load())*time.Second/rate
}

// slow reports whether the body arrives too slowly while others wait for memory.
func (c *bodyClock) slow() bool {
	waited := c.waited.Load()
	if since := c.since.Load(); since != 0 {
		waited += int64(time.Since(c.opened)) - since
	}
	return time.Duration(waited) > c.allowance(pressedGrace, pressedRate)
}

// cut ends the running Read and all later ones. The budget calls it with its lock held, before the body is settled.
func (b *Body) cut() {
	b.clock.cut.Store(true)
	_ = b.c.Conn.SetReadDeadline(time.Unix(1, 0)) // fails only on a closed connection, which ends the Read too
}

// Read implements io.Reader. An *httperr.Error means that the client is too slow or gone, or that the framing is invalid. The
// first Read sends 100 Continue to a client that waits for it.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.expect {
		b.expect = false
		if _, err := b.c.Write([]byte("HTTP/1.1 100 Continue\r\n\r\n")); err != nil {
			return 0, b.fail(err)
		}
	}
	if b.length < 0 {
		return b.readChunked(p)
	}
	if left := b.length - b.clock.read.Load(); int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.readRaw(p)
	switch {
	case b.clock.read.Load() == b.length:
		b.complete()
		return n, nil
	case err != nil:
		return n, b.fail(err)
	}
	return n, nil
}

func (b *Body) readRaw(p []byte) (int, error) {
	n := b.c.takeBuffered(p)
	if n > 0 {
		b.clock.read.Add(int64(n))
		return n, nil
	}
	deadline := b.clock.begin(b.c.owner.cfg.BodyTimeout)
	n, err := b.c.readBody(p, deadline, &b.clock.cut, b.readsAhead(len(p)))
	b.clock.end()
	b.clock.read.Add(int64(n))
	return n, err
}

// readsAhead reports whether to read more than asked: the decoders of forms and chunks ask for 4 KiB, a system call each. A
// short body, which often arrives with its header, needs no large buffer.
func (b *Body) readsAhead(asked int) bool {
	read := b.clock.read.Load()
	return asked < largeBytes/2 && (b.length < 0 && read >= largeBytes || b.length-read >= largeBytes)
}

// complete is called once the whole body has arrived.
func (b *Body) complete() {
	b.done, b.err = true, io.EOF
	b.settle()
}

// settle marks the body as no longer waited for, so that it is not cut.
func (b *Body) settle() {
	if share := b.c.current.share; share != nil {
		b.c.owner.budget.complete(share)
	}
	if share := b.c.current.stream; share != nil {
		b.c.owner.streams.complete(share)
	}
	if b.clock.cut.Load() {
		b.c.readDeadline = time.Time{} // may differ from the connection's: see Body.cut
	}
}

func isError(err error) bool {
	_, ok := errors.AsType[*httperr.Error](err)
	return ok
}

func (b *Body) fail(err error) error {
	var timeout net.Error
	switch {
	case b.clock.cut.Load():
		b.err = tooSlow(err)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		b.err = &httperr.Error{
			Status: fiber.StatusRequestTimeout, Code: httperr.CodeRequestTimeout, Cause: err,
			Message: fmt.Sprintf("The request body did not arrive in time: the limit is %v plus a second per %d KB.",
				b.c.owner.cfg.BodyTimeout, minBodyRate>>10),
		}
	case isError(err): // from the chunk decoder, which says what is wrong
		b.err = err
	default:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // readers would take io.EOF for the end of a complete body
		}
		early := httperr.Malformed("The request body ended early or is not framed correctly.")
		early.Cause = err
		b.err = early
	}
	return b.err
}

// finish leaves the connection at the start of the next request. If the rest of the body has not arrived yet, the connection
// is closed after the answer, in a way that lets the client read it: see conn.Close.
func (b *Body) finish(ctx *fasthttp.RequestCtx) {
	if b.done {
		return
	}
	b.settle()
	if left := b.length - b.clock.read.Load(); b.length >= 0 && !b.expect && left <= int64(len(b.c.buffered())) {
		b.c.consume(int(left))
		return
	}
	ctx.SetConnectionClose()
	b.c.linger.Store(true)
}

// Limit is the maximum size of a body.
type Limit struct {
	Bytes int64
	Name  string // for people: "1 MB"
}

// CheckBody checks a body by its header: 413 if the announced length exceeds the limit, 415 if it is compressed.
func CheckBody(c *fiber.Ctx, limit Limit) error {
	b := BodyOf(c)
	if b == nil {
		return nil
	}
	if err := RequireIdentity(c); err != nil {
		return err
	}
	b.limit, b.tooLarge = limit, nil
	if b.length > limit.Bytes {
		return limit.tooLarge()
	}
	return nil
}

func (l Limit) tooLarge() error {
	return httperr.TooLarge(l.Bytes, "The request body must be at most %s (%d bytes).", l.Name, l.Bytes)
}

// BodyExceeds reports whether the body is longer than bytes. It reads a body of unknown length up to there; ReadBody then
// starts with what was read, and nothing else may read the body.
func (s *Server) BodyExceeds(c *fiber.Ctx, bytes int64) (bool, error) {
	b := BodyOf(c)
	if b == nil || b.length >= 0 {
		return b != nil && b.length > bytes, nil
	}
	var err error
	b.ahead, err = s.readUpTo(c, b.ahead, Limit{Bytes: bytes})
	return int64(len(b.ahead)) > bytes, err
}

// ReadBody reads the whole body; nil without one. A body over the limit is 413 as soon as that is known. The caller owns the
// bytes. They count against the budget as they arrive, until the handler returns: see Reserve.
func (s *Server) ReadBody(c *fiber.Ctx, limit Limit) ([]byte, error) {
	b := BodyOf(c)
	if b == nil {
		return nil, nil
	}
	if err := CheckBody(c, limit); err != nil {
		return nil, err
	}
	out, err := s.readUpTo(c, b.ahead, limit)
	b.ahead = nil
	if err == nil && int64(len(out)) > limit.Bytes {
		err = limit.tooLarge()
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readUpTo appends to out until the body ends or exceeds the limit.
func (s *Server) readUpTo(c *fiber.Ctx, out []byte, limit Limit) ([]byte, error) {
	b := BodyOf(c)
	if out == nil {
		out = make([]byte, 0, min(max(b.length, 512), smallBodyBytes))
	}
	for !b.done && int64(len(out)) <= limit.Bytes {
		if len(out) == cap(out) {
			var err error
			if out, err = s.grow(c, out, limit); err != nil {
				return nil, err
			}
		}
		n, err := b.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
	return out, nil
}

// grow enlarges the buffer to four times its size, up to the size the body may reach, and takes the memory from the budget.
func (s *Server) grow(c *fiber.Ctx, b []byte, limit Limit) ([]byte, error) {
	size := int64(4 * cap(b))
	if cap(b) < smallBodyBytes {
		size = min(size, smallBodyBytes)
	}
	if announced := BodyOf(c).length; announced >= 0 {
		size = min(size, announced)
	} else {
		size = min(size, limit.Bytes+1) // one byte more shows that the body exceeds the limit
	}
	if size > smallBodyBytes {
		more := size
		if cap(b) > smallBodyBytes {
			more -= int64(cap(b))
		}
		if err := s.Reserve(c, more); err != nil {
			return nil, err
		}
	}
	return append(make([]byte, 0, size), b...), nil
}

// RequireIdentity rejects a compressed body with 415.
func RequireIdentity(c *fiber.Ctx) error {
	if e := c.Get(fiber.HeaderContentEncoding); e != "" && !strings.EqualFold(e, "identity") {
		return httperr.UnsupportedMediaType("Content-Encoding must be identity: send the body uncompressed.")
	}
	return nil
}
