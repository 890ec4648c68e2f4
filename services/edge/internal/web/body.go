package web

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/fault"
)

// bodyMark is a header of our own making that carries what the client said of its body from
// hideBody to openBody: its length or "chunked", with a "+" before it where the client waits for
// 100 Continue.
const bodyMark = "X-Quire-Body"

// hideBody has the server believe that there is no body, so that it leaves it on the connection.
func hideBody(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if len(h.Peek(bodyMark)) > 0 {
		h.Del(bodyMark)
	}
	length := h.ContentLength()
	if length == -2 || length == 0 {
		return fasthttp.RequestConfig{}
	}
	mark := "chunked"
	if length > 0 {
		mark = strconv.Itoa(length)
	}
	if expect := h.Peek(fiber.HeaderExpect); len(expect) > 0 {
		if strings.EqualFold(string(expect), "100-continue") {
			mark = "+" + mark
		}
		h.Del(fiber.HeaderExpect)
	}
	if ambiguousLength(h.RawHeaders()) {
		mark = "!" // where the body ends is a matter of opinion: refused, see openBody
	}
	h.SetContentLength(0)
	h.Set(bodyMark, mark)
	return fasthttp.RequestConfig{}
}

// ambiguousLength tells whether a header says more than once how its body is framed. Two servers
// in a row may then disagree about where the next request begins (RFC 9112, 6.3).
func ambiguousLength(raw []byte) bool {
	said := 0
	for line := range bytes.Lines(raw) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.EqualFold(name, []byte("Content-Length")) {
			said++
		} else if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			said++
			if !bytes.EqualFold(bytes.TrimSpace(value), []byte("chunked")) {
				return true
			}
		}
	}
	return said > 1
}

// body reads one request's body from its connection. It is read by one goroutine, and by the time
// the handler returns no longer.
type body struct {
	c        *conn
	length   int64 // -1: chunked
	read     int64
	expect   bool // the client waits for 100 Continue
	bad      bool
	done     bool
	started  time.Time
	buffered *bufio.Reader // chunked ones
	chunks   io.Reader
	err      error
}

// openBody gives the running request its body, where it has one.
func openBody(c *conn, h *fasthttp.RequestHeader) {
	c.body = nil
	mark := h.Peek(bodyMark)
	if len(mark) == 0 {
		return
	}
	b := &body{c: c, length: -1, started: time.Now()}
	text, expect := strings.CutPrefix(string(mark), "+")
	b.expect = expect
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		b.length = n
	}
	b.bad = text == "!"
	c.body = b
}

// Read reads on; the body's end is io.EOF. A client that is too slow, gone or wrong about its
// framing is a *fault.Error.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.bad {
		return 0, b.fail(errAmbiguous)
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
	if left := b.length - b.read; int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.readRaw(p)
	switch {
	case b.read == b.length:
		b.done, b.err = true, io.EOF
		return n, nil
	case err != nil:
		return n, b.fail(err)
	}
	return n, nil
}

// rawBody is the connection as the chunked decoder reads it.
type rawBody struct{ *body }

func (r rawBody) Read(p []byte) (int, error) { return r.readRaw(p) }

func (b *body) readRaw(p []byte) (int, error) {
	deadline := b.started.Add(b.c.owner.bodyTimeout + time.Duration(b.read)*time.Second/minBodyRate)
	n, err := b.c.readBody(p, deadline)
	b.read += int64(n)
	return n, err
}

func (b *body) readChunked(p []byte) (int, error) {
	if b.chunks == nil {
		b.buffered = bufio.NewReaderSize(rawBody{b}, connBufferBytes)
		b.chunks = httputil.NewChunkedReader(b.buffered)
	}
	n, err := b.chunks.Read(p)
	if errors.Is(err, io.EOF) {
		if err = b.skipTrailer(); err == nil {
			b.done, b.err = true, io.EOF
			rest, _ := b.buffered.Peek(b.buffered.Buffered())
			b.c.unread(rest)
			return n, nil
		}
	}
	if err != nil {
		return n, b.fail(err)
	}
	return n, nil
}

// skipTrailer reads the lines after the last chunk, up to an empty one.
func (b *body) skipTrailer() error {
	for range 64 {
		line, err := b.buffered.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(bytes.TrimRight(line, "\r\n")) == 0 {
			return nil
		}
	}
	return errTrailer
}

var (
	errTrailer   = errors.New("trailer is too long")
	errAmbiguous = errors.New("the body's length is given more than once, or its transfer coding is not chunked")
)

func (b *body) fail(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		b.err = fault.New(fault.RequestTimeout, "The request body did not arrive in time.").Because(err)
	case errors.Is(err, errAmbiguous):
		b.err = fault.New(fault.Malformed, "The request is ambiguous: %s.", errAmbiguous)
	default:
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // no reader may take it for the end of a whole body
		}
		b.err = fault.New(fault.Malformed, "The request body ended early or is not framed correctly.").Because(err)
	}
	return b.err
}

// finish leaves the connection at the start of the next request. Where that would mean to wait for
// the client, the connection is closed after the answer, in a way that the client can read it.
func (b *body) finish(ctx *fasthttp.RequestCtx) {
	if b.done {
		return
	}
	if left := b.length - b.read; b.length >= 0 && !b.expect && !b.bad && left <= int64(len(b.c.buffered())) {
		b.c.consume(int(left))
		return
	}
	ctx.SetConnectionClose()
	b.c.linger.Store(true)
}

// smallBodyBytes is what a body may hold without a share of the byte budget.
const smallBodyBytes = 16 << 10

// bodyLimit says how large a body may be, and how that is put to a client.
type bodyLimit struct {
	bytes int64
	name  string // "1 MiB"
}

// readBody reads the whole body, at most limit.bytes of it: a larger one is 413 as soon as that is
// known. The bytes are the caller's. They count against the server's byte budget until the handler
// returns; where that stays spent for too long it is 503.
func (s *Server) readBody(c *fiber.Ctx, limit bodyLimit) ([]byte, error) {
	b := connOf(c).body
	if b == nil {
		return nil, nil
	}
	if err := requirePlain(c); err != nil {
		return nil, err
	}
	tooLarge := fault.New(fault.TooLarge, "The request body is larger than %s.", limit.name)
	if b.length > limit.bytes {
		return nil, tooLarge
	}
	size := b.length
	if size < 0 {
		size = limit.bytes
	}
	if size > smallBodyBytes {
		if err := s.reserve(c, size); err != nil {
			return nil, err
		}
	}
	out := make([]byte, 0, min(max(b.length, 512), smallBodyBytes))
	for {
		if len(out) == cap(out) {
			out = grow(out, b.length)
		}
		room := out[len(out):cap(out)]
		n, err := b.Read(room)
		out = out[:len(out)+n]
		if int64(len(out)) > limit.bytes {
			return nil, tooLarge
		}
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// grow makes room for more: once the client has shown that it sends, for all that it announced.
func grow(b []byte, announced int64) []byte {
	if len(b) < smallBodyBytes || announced <= int64(len(b)) {
		return append(b, 0)[:len(b)]
	}
	return append(make([]byte, 0, announced), b...)
}

// requirePlain refuses a body that is encoded: nothing here would decode it.
func requirePlain(c *fiber.Ctx) error {
	if e := c.Get(fiber.HeaderContentEncoding); e != "" && !strings.EqualFold(e, "identity") {
		return fault.New(fault.UnsupportedMediaType, "Content-Encoding must be identity: send the body uncompressed.")
	}
	return nil
}

// reserve takes a share of the byte budget until the handler returns.
func (s *Server) reserve(c *fiber.Ctx, size int64) error {
	size = min(size, s.cfg.BodyBudgetBytes)
	ctx, cancel := context.WithTimeout(s.ctx, budgetWait)
	defer cancel()
	if err := s.budget.Acquire(ctx, size); err != nil {
		return unavailable(err)
	}
	connOf(c).current.reserved += size
	return nil
}

// budgetWait is how long a request waits for memory, or for its turn to hash a password.
const budgetWait = 5 * time.Second
