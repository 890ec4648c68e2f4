package httpin

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
)

const (
	minBodyRate     = 16 << 10         // minimum average rate of a body, bytes per second
	writeStall      = 30 * time.Second // for each writeChunk of an answer
	writeChunk      = 128 << 10
	lingerTimeout   = 15 * time.Second // for reading on after an answer that preceded the end of the body
	lingerBytes     = 256 << 20
	connBufferBytes = 4 << 10
	largeBytes      = 64 << 10 // of a buffer for the rest of a large body, and for an answer that is not a file
)

// conn is a client's connection. It gives fasthttp one request header at a time and never a byte of a body, so that fasthttp
// can release its buffers while a request runs and while the connection is idle. Handlers read the body through conn.body.
// conn sets the deadlines itself: fasthttp would set one on every request, and only for header and body together.
//
// One goroutine reads. Another may call Close.
type conn struct {
	net.Conn
	raw    syscall.RawConn
	owner  *listener
	peer   netip.Addr
	source netip.Addr   // of peer: see sourceOf
	site   netip.Prefix // of source: see Site

	handled bool // a handler ran for the last header given to fasthttp

	buffer *[]byte // nil while nothing is buffered
	r, w   int     // buffer[r:w] is unread
	large  bool    // fill takes a large buffer
	head   head    // of the running or the arriving request
	ready  int     // bytes of the header that fasthttp may read
	failed error   // why the header failed

	readDeadline  time.Time
	writeDeadline time.Time
	headerTimed   bool // readDeadline belongs to the header being read
	readFunc      func(fd uintptr) bool
	readErr       error

	body    *Body // of the running request; nil: none
	current requestState
	linger  atomic.Bool
	closed  atomic.Bool
	idle    atomic.Bool // waiting for the first byte of a request
}

// requestState belongs to the running request.
type requestState struct {
	id      string
	started time.Time
	client  netip.Addr // behind a trusted proxy, once it was read from the header
	share   *share     // of the budget, released when the handler returns; nil: none
	stream  *share     // of the budget for streams, likewise
	note    any        // see Note
}

func newConn(c net.Conn, owner *listener, peer netip.Addr) (*conn, error) {
	out := &conn{Conn: c, owner: owner, peer: peer, source: sourceOf(peer)}
	out.site = Site(out.source)
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

// Read gives fasthttp the next bytes of a complete and checked request header. The Read after its end starts on the next
// request.
func (c *conn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	if c.head.done && c.ready == 0 {
		if !c.handled {
			return 0, errHeader
		}
		c.head, c.headerTimed, c.handled = head{}, false, false
	}
	if !c.head.done {
		if err := c.readHead(); err != nil {
			if !c.head.begun {
				return 0, err
			}
			c.failed = err
			return copy(p, "."), nil // after an error at the first byte, fasthttp would close without an answer
		}
	}
	n := copy(p, (*c.buffer)[c.r:c.r+c.ready])
	c.ready -= n
	c.consume(n)
	return n, nil
}

// readHead waits for a complete header.
func (c *conn) readHead() error {
	most := c.owner.cfg.HeaderBytes
	for {
		b := c.buffered()
		c.head.judge(b, &c.owner.fields)
		switch {
		case c.head.refusal != nil:
			return errHeader
		case c.head.at > most || !c.head.done && len(b) >= most:
			c.head.refusal = headersTooLarge(most)
			return errHeader
		case c.head.done:
			c.ready = c.head.at - c.head.start
			c.consume(c.head.start)
			return nil
		}
		if err := c.setHeaderDeadline(); err != nil {
			return err
		}
		if err := c.awaitHeader(); err != nil {
			return err
		}
	}
}

// takeBuffered takes buffered bytes after the header. p must not reach beyond the body.
func (c *conn) takeBuffered(p []byte) int {
	n := copy(p, c.buffered())
	if n > 0 {
		c.consume(n)
	}
	return n
}

// readBody waits for bytes after the header, until deadline or until the body is cut. The buffer must be empty. p must not
// reach beyond the body. With ahead, it may read more than fits into p, into the next request.
func (c *conn) readBody(p []byte, deadline time.Time, cut *atomic.Bool, ahead bool) (int, error) {
	if err := c.setReadDeadline(deadline); err != nil {
		return 0, err
	}
	c.headerTimed = true
	if cut.Load() { // its deadline may have been overwritten just now
		return 0, os.ErrDeadlineExceeded
	}
	if !ahead {
		return c.Conn.Read(p)
	}
	c.large = true
	err := c.fill()
	c.large = false
	return c.takeBuffered(p), err
}

// unread returns bytes to the buffer that a reader read beyond its body's end.
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
		c.owner.putBuffer(c.buffer)
		c.buffer, c.r, c.w = nil, 0, 0
	}
}

// setHeaderDeadline gives a header that has begun Config.HeaderTimeout in total, and an idle connection at least half of
// Config.IdleTimeout: its deadline moves only occasionally, since each move costs a call to the poller.
func (c *conn) setHeaderDeadline() error {
	now := time.Now()
	if c.head.begun {
		if c.headerTimed {
			return nil
		}
		c.headerTimed = true
		return c.setReadDeadline(now.Add(c.owner.cfg.HeaderTimeout))
	}
	idle := c.owner.cfg.IdleTimeout
	if left := c.readDeadline.Sub(now); left > idle/2 && left <= idle {
		return nil
	}
	return c.setReadDeadline(now.Add(idle))
}

func (c *conn) setReadDeadline(t time.Time) error {
	c.readDeadline = t
	return c.Conn.SetReadDeadline(t)
}

// awaitHeader is fill, except that a stop ends it while no request has begun.
func (c *conn) awaitHeader() error {
	if c.head.begun {
		return c.fill()
	}
	c.idle.Store(true)
	defer c.idle.Store(false)
	if c.owner.stopping.Load() {
		return io.EOF
	}
	return c.fill()
}

// fill waits for bytes and appends them to the buffer. It allocates a buffer only once there are some.
func (c *conn) fill() error {
	c.readErr = nil
	if c.buffer != nil && c.w == len(*c.buffer) {
		c.makeRoom()
	}
	if err := c.raw.Read(c.readFunc); err != nil {
		return err
	}
	return c.readErr
}

// makeRoom makes room for a header that has outgrown the buffer.
func (c *conn) makeRoom() {
	to := *c.buffer
	if c.r == 0 {
		to = make([]byte, c.owner.cfg.HeaderBytes)
	}
	c.w = copy(to, c.buffered())
	if c.r == 0 {
		c.owner.putBuffer(c.buffer)
		c.buffer = &to
	}
	c.r = 0
}

// readReady is called when the socket may be readable. If it returns false, it is called again once the socket is.
func (c *conn) readReady(fd uintptr) bool {
	b := c.buffer
	if b == nil {
		b = c.owner.takeBuffer(c.large)
	}
	n, err := syscall.Read(int(fd), (*b)[c.w:])
	for err == syscall.EINTR {
		n, err = syscall.Read(int(fd), (*b)[c.w:])
	}
	switch {
	case n > 0:
		c.buffer, c.w = b, c.w+n
		return true
	case err == nil:
		c.readErr = io.EOF
	case err != syscall.EAGAIN:
		c.readErr = &net.OpError{Op: "read", Net: "tcp", Err: err}
	}
	if c.buffer == nil {
		c.owner.putBuffer(b)
	}
	return err != syscall.EAGAIN
}

// HungUp reports whether the client has closed the connection, or its sending half. A handler that waits for long should poll
// it, on its own goroutine: nothing reads from a connection while a request runs. It can't detect this for a client that sent
// more after its request.
func HungUp(c *fiber.Ctx) bool { return connOf(c).ended() }

// ended peeks at the next byte.
func (c *conn) ended() bool {
	ended := false
	err := c.raw.Control(func(fd uintptr) {
		var next [1]byte
		n, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		switch err {
		case nil:
			ended = n == 0
		case syscall.EAGAIN, syscall.EINTR:
		default:
			ended = true
		}
	})
	return ended || err != nil
}

// Write writes p, and fails if the client takes nothing for writeStall.
func (c *conn) Write(p []byte) (int, error) {
	written := 0
	for first := true; first || written < len(p); first = false {
		if err := c.allowStall(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:min(len(p), written+writeChunk)])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// allowStall gives the next writeChunk of an answer writeStall, or up to a third less: each move of the deadline costs a call
// to the poller.
func (c *conn) allowStall() error {
	now := time.Now()
	if c.writeDeadline.Sub(now) >= writeStall*2/3 {
		return nil
	}
	c.writeDeadline = now.Add(writeStall)
	return c.Conn.SetWriteDeadline(c.writeDeadline)
}

// Close closes the connection. If the answer preceded the end of the request's body, it first closes the sending half and
// reads on for a while: closing with unread bytes would reset the connection, and the client might never see the answer.
func (c *conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return nil
	}
	defer c.owner.release(c)
	if c.linger.Load() {
		c.owner.linger(c.Conn, time.Now().Add(lingerTimeout), lingerBytes)
	}
	return c.Conn.Close()
}
