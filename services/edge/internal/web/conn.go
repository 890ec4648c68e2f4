package web

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"quire.dev/pkg/event"
)

// How long a connection may take. The server's own time-outs stay off: it would set a deadline on
// every request, and knows one only for a request as a whole.
const (
	idleTimeout     = 75 * time.Second // between two requests, and before the first
	headerTimeout   = 10 * time.Second // from a request's first byte to the end of its header
	bodyTimeout     = 15 * time.Second // a body may take so long, and longer by minBodyRate
	minBodyRate     = 16 << 10         // bytes a second that a body must make on the average
	writeStall      = 30 * time.Second // for each writeChunk of an answer
	writeChunk      = 128 << 10
	lingerTimeout   = 15 * time.Second // reads on so long after an answer that came before the body's end
	lingerBytes     = 256 << 20
	connBufferBytes = 4 << 10
)

// conn is a client's connection. It hands the server one request header at a time and never a byte
// of what follows it, so that the server can give its buffers back while a request runs and while
// the connection is idle; the body is read through conn.body by the handler that wants it.
//
// One goroutine reads. Close may be called by another.
type conn struct {
	net.Conn
	raw    syscall.RawConn
	owner  *listener
	peer   netip.Addr
	source netip.Addr // peer as it is counted: see sourceOf

	handled bool // a handler has had the request of the header that ended

	buffer *[]byte // from bufferPool; nil while nothing is buffered
	r, w   int     // what of buffer is unread
	header headerScan

	readDeadline  time.Time
	writeDeadline time.Time
	headerTimed   bool // readDeadline is the running header's
	readFunc      func(fd uintptr) bool
	readErr       error

	body    *body // of the running request; nil without one
	current requestState
	linger  atomic.Bool
	closed  atomic.Bool
	idle    atomic.Bool // waits for a request's first byte
}

// requestState is what the handlers of the running request share.
type requestState struct {
	id       event.RequestID
	started  time.Time
	reserved int64 // of the byte budget, given back when the handler returns
}

func newConn(c net.Conn, owner *listener, peer netip.Addr) (*conn, error) {
	out := &conn{Conn: c, owner: owner, peer: peer, source: sourceOf(peer)}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errNoSyscallConn
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	out.raw, out.readFunc = raw, out.readReady
	return out, nil
}

// Read gives the server the next bytes of a request header, at most up to its end. A Read after a
// header's end asks for the next request's.
func (c *conn) Read(p []byte) (int, error) {
	if c.header.done {
		if !c.handled {
			return 0, errHeader
		}
		c.header, c.headerTimed, c.handled = headerScan{}, false, false
	}
	if c.r == c.w {
		if err := c.setHeaderDeadline(); err != nil {
			return 0, err
		}
		if err := c.awaitHeader(); err != nil {
			return 0, err
		}
	}
	n := copy(p, (*c.buffer)[c.r:c.w])
	n = c.header.take(p[:n])
	if n == 0 && c.header.folded {
		return 0, errHeader
	}
	c.consume(n)
	return n, nil
}

// readBody reads what follows the header. The caller bounds p to what belongs to the body.
func (c *conn) readBody(p []byte, deadline time.Time) (int, error) {
	if c.r < c.w {
		n := copy(p, (*c.buffer)[c.r:c.w])
		c.consume(n)
		return n, nil
	}
	if err := c.setReadDeadline(deadline); err != nil {
		return 0, err
	}
	c.headerTimed = true
	return c.Conn.Read(p)
}

// unread puts back what a reader of the body took beyond its end.
func (c *conn) unread(p []byte) {
	if len(p) == 0 {
		return
	}
	rest := append(bytes.Clone(p), c.buffered()...)
	c.consume(c.w - c.r)
	c.buffer, c.r, c.w = &rest, 0, len(rest)
}

func (c *conn) buffered() []byte {
	if c.buffer == nil {
		return nil
	}
	return (*c.buffer)[c.r:c.w]
}

func (c *conn) consume(n int) {
	c.r += n
	if c.r == c.w && c.buffer != nil {
		putBuffer(c.buffer)
		c.buffer, c.r, c.w = nil, 0, 0
	}
}

// setHeaderDeadline gives an idle connection idleTimeout, moved only now and then, and a header
// that has begun headerTimeout as a whole.
func (c *conn) setHeaderDeadline() error {
	now := time.Now()
	if c.header.begun {
		if c.headerTimed {
			return nil
		}
		c.headerTimed = true
		return c.setReadDeadline(now.Add(c.owner.headerTimeout))
	}
	if left := c.readDeadline.Sub(now); left > c.owner.idleTimeout/2 && left <= c.owner.idleTimeout {
		return nil
	}
	return c.setReadDeadline(now.Add(c.owner.idleTimeout))
}

func (c *conn) setReadDeadline(t time.Time) error {
	c.readDeadline = t
	return c.Conn.SetReadDeadline(t)
}

// awaitHeader is fill, which a stop cuts short where no request has begun.
func (c *conn) awaitHeader() error {
	if c.header.begun {
		return c.fill()
	}
	c.idle.Store(true)
	defer c.idle.Store(false)
	if c.owner.stopping.Load() {
		return io.EOF
	}
	return c.fill()
}

// fill waits for bytes and takes a buffer only once there are some.
func (c *conn) fill() error {
	c.readErr = nil
	if err := c.raw.Read(c.readFunc); err != nil {
		return err
	}
	return c.readErr
}

// readReady is called when the socket may be readable; false has it called again when it is.
func (c *conn) readReady(fd uintptr) bool {
	b := takeBuffer()
	for {
		n, err := syscall.Read(int(fd), *b)
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			putBuffer(b)
			return false
		case err != nil:
			putBuffer(b)
			c.readErr = &net.OpError{Op: "read", Net: "tcp", Err: err}
			return true
		case n == 0:
			putBuffer(b)
			c.readErr = io.EOF
			return true
		}
		c.buffer, c.r, c.w = b, 0, n
		return true
	}
}

// Write writes p, and fails when the client takes none of it for writeStall.
func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for first := true; first || written < len(p); first = false {
		if now := time.Now(); c.writeDeadline.Sub(now) < writeStall*2/3 {
			c.writeDeadline = now.Add(writeStall)
			if err := c.Conn.SetWriteDeadline(c.writeDeadline); err != nil {
				return written, err
			}
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+writeChunk)])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close closes the connection. After an answer that came before the request's body was read it
// first tells the client that nothing more follows and reads on for a while: closing with unread
// bytes would reset the connection, and the client might lose the answer.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	defer c.owner.release(c)
	if c.linger.Load() {
		lingerOn(c.Conn)
	}
	return c.Conn.Close()
}

func lingerOn(c net.Conn) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if err := c.SetReadDeadline(time.Now().Add(lingerTimeout)); err != nil {
		return
	}
	b := takeBuffer()
	defer putBuffer(b)
	for total := 0; total < lingerBytes; {
		n, err := c.Read(*b)
		total += n
		if err != nil {
			return
		}
	}
}

// errHeader is what the server gets that asks for more of a header that has ended: it could not read
// a line of it, and would wait for the rest.
var errHeader = errors.New("a header line has no colon, or goes on from the one before")

// headerScan finds where a request header ends: at the first empty line after a line that is not.
// It reads lines as the server does, which ends them at LF and ignores a CR before it.
type headerScan struct {
	begun    bool // a byte has come
	seenLine bool // a line that is not empty has ended
	lineLen  int
	onlyCR   bool
	folded   bool // a line goes on from the one before: nothing from there on is taken
	done     bool
}

// take returns how many bytes of p belong to the header.
func (h *headerScan) take(p []byte) int {
	h.begun = h.begun || len(p) > 0
	for at := 0; at < len(p); {
		if h.lineLen == 0 && h.seenLine && (p[at] == ' ' || p[at] == '\t') {
			h.folded = true // the server would lose count of what it has read (RFC 9112, 5.2 has it refused)
			return at
		}
		i := bytes.IndexByte(p[at:], '\n')
		if i < 0 {
			h.addToLine(p[at:])
			return len(p)
		}
		h.addToLine(p[at : at+i])
		at += i + 1
		empty := h.lineLen == 0 || h.lineLen == 1 && h.onlyCR
		h.lineLen, h.onlyCR = 0, false
		if empty && h.seenLine {
			h.done = true
			return at
		}
		h.seenLine = h.seenLine || !empty
	}
	return len(p)
}

func (h *headerScan) addToLine(p []byte) {
	if h.lineLen == 0 && len(p) > 0 {
		h.onlyCR = p[0] == '\r'
	}
	h.lineLen += len(p)
}

// bufferPool holds the buffers of connections that have bytes waiting. It is the one package
// variable here: a cache, of no consequence to what is computed.
var bufferPool = sync.Pool{New: func() any { b := make([]byte, connBufferBytes); return &b }}

func takeBuffer() *[]byte { return bufferPool.Get().(*[]byte) }

func putBuffer(b *[]byte) {
	if cap(*b) == connBufferBytes {
		*b = (*b)[:connBufferBytes]
		bufferPool.Put(b)
	}
}
