package httpin

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

var errNoSyscallConn = errors.New("connection without a file descriptor")

const (
	refusing      = 64          // connections being refused at a time
	refusalTime   = time.Second // time limit of a refusal
	refusalLinger = 64 << 10    // bytes read after a refusal
	largeSends    = 64          // answers with a large buffer at a time
)

// listener accepts connections up to the limits of Config.
type listener struct {
	net.Listener
	cfg     *Config
	fields  fieldNames
	budget  *budget
	streams *budget
	buffers sync.Pool     // of *[]byte, for connections with unread bytes
	large   sync.Pool     // of *[]byte with largeBytes
	sending chan struct{} // a slot for each answer with a large buffer

	mu       sync.Mutex
	open     int
	closed   bool
	bySite   map[netip.Prefix]int
	conns    map[*conn]struct{}
	stopping atomic.Bool
	closing  sync.Once
	empty    chan struct{} // closed when the last connection ends after Close

	refusals chan struct{}
	waiting  sync.WaitGroup

	begin     sync.Once
	accepting chan struct{} // closed by the first Accept
}

func newListener(ln net.Listener, s *Server) *listener {
	return &listener{
		Listener: ln, cfg: &s.cfg, fields: newFieldNames(s.cfg.Single), budget: s.budget, streams: s.streams,
		buffers: sync.Pool{New: func() any { b := make([]byte, connBufferBytes); return &b }},
		large:   sync.Pool{New: func() any { b := make([]byte, largeBytes); return &b }},
		sending: make(chan struct{}, largeSends),
		bySite:  make(map[netip.Prefix]int), conns: make(map[*conn]struct{}), refusals: make(chan struct{}, refusing),
		accepting: make(chan struct{}), empty: make(chan struct{}),
	}
}

func (l *listener) takeBuffer(large bool) *[]byte {
	if large {
		return l.large.Get().(*[]byte)
	}
	return l.buffers.Get().(*[]byte)
}

func (l *listener) putBuffer(b *[]byte) {
	*b = (*b)[:cap(*b)]
	switch len(*b) { // conn.unread allocates other sizes
	case connBufferBytes:
		l.buffers.Put(b)
	case largeBytes:
		l.large.Put(b)
	}
}

// sendBuffer returns a buffer for an answer, held until the client has taken the answer. Only largeSends of them are large.
func (l *listener) sendBuffer() (buffer *[]byte, done func()) {
	select {
	case l.sending <- struct{}{}:
		buffer = l.takeBuffer(true)
		return buffer, func() {
			l.putBuffer(buffer)
			<-l.sending
		}
	default:
		buffer = l.takeBuffer(false)
		return buffer, func() { l.putBuffer(buffer) }
	}
}

// Close stops accepting connections and leaves open ones open. A second call does nothing.
func (l *listener) Close() error {
	var err error
	l.closing.Do(func() {
		err = l.Listener.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.closed = true
		l.noteEmpty()
	})
	return err
}

// noteEmpty requires the lock. It is called whenever the last connection may have ended.
func (l *listener) noteEmpty() {
	if l.closed && l.open == 0 {
		select {
		case <-l.empty:
		default:
			close(l.empty)
		}
	}
}

// drain closes the listener and waits for the last connection to end, for at most limit or until ctx ends.
func (l *listener) drain(ctx context.Context, limit time.Duration) {
	_ = l.Close() // fiber closes it again, and reports
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.empty:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Accept returns the next connection within the limits, and refuses others.
func (l *listener) Accept() (net.Conn, error) {
	l.begin.Do(func() { close(l.accepting) })
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		out, err := newConn(c, l, addrOf(c.RemoteAddr()))
		if err != nil {
			c.Close()
			return nil, err
		}
		if l.admit(out) {
			return out, nil
		}
		l.refuse(c)
	}
}

func (l *listener) admit(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.cfg.MaxConns {
		return false
	}
	// A trusted proxy carries many clients, so MaxConnsPerSource does not apply to it.
	if l.bySite[c.site] >= l.cfg.MaxConnsPerSource && !contains(l.cfg.TrustedProxies, c.peer) {
		return false
	}
	l.open++
	l.bySite[c.site]++
	l.conns[c] = struct{}{}
	return true
}

func (l *listener) release(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	delete(l.conns, c)
	if l.bySite[c.site]--; l.bySite[c.site] <= 0 {
		delete(l.bySite, c.site)
	}
	l.noteEmpty()
}

// stop closes the connections that run no request. The others end with their request. fasthttp alone would keep connections
// open that never had a request.
func (l *listener) stop() {
	l.stopping.Store(true)
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if c.idle.Load() {
			c.Conn.Close()
		}
	}
}

// refuse answers 503 without reading the request, and closes.
func (l *listener) refuse(c net.Conn) {
	select {
	case l.refusals <- struct{}{}:
	default:
		c.Close()
		return
	}
	l.waiting.Go(func() {
		defer func() { <-l.refusals }()
		defer c.Close()
		deadline := time.Now().Add(refusalTime)
		if c.SetDeadline(deadline) != nil {
			return
		}
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, nil, nil)
		ctx.Response.Header.Set(fiber.HeaderXRequestID, l.cfg.NewRequestID())
		l.cfg.Fail(&ctx, "", unavailable("Too many connections. Try again.", nil))
		ctx.SetConnectionClose()
		if _, err := ctx.Response.WriteTo(c); err == nil {
			l.linger(c, deadline, refusalLinger)
		}
	})
}

// linger closes the sending half of c and reads until the client closes too, up to deadline and limit bytes.
func (l *listener) linger(c net.Conn, deadline time.Time, limit int) {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.SetReadDeadline(deadline) != nil {
		return
	}
	b := l.takeBuffer(false)
	defer l.putBuffer(b)
	for total := 0; total < limit; {
		n, err := c.Read(*b)
		total += n
		if err != nil {
			return
		}
	}
}

func contains(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}
