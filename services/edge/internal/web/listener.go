package web

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

var errNoSyscallConn = errors.New("connection without a file descriptor")

// refusing bounds the connections that are being told that there is no room.
const refusing = 64

// listener accepts connections, as many as it may and from one source.
type listener struct {
	net.Listener
	maxConns     int
	maxPerSource int
	trusted      []netip.Prefix // not bounded one by one: many clients come through a proxy

	idleTimeout, headerTimeout, bodyTimeout time.Duration

	mu       sync.Mutex
	open     int
	closed   bool
	bySource map[netip.Addr]int
	conns    map[*conn]struct{}
	stopping atomic.Bool
	closing  sync.Once
	empty    chan struct{} // closed when the last connection ends after Close

	refusals chan struct{}
	waiting  sync.WaitGroup

	begin     sync.Once
	accepting chan struct{} // closed by the first Accept
}

func newListener(ln net.Listener, cfg *Config) *listener {
	return &listener{
		Listener: ln, maxConns: cfg.MaxConns, maxPerSource: cfg.MaxConnsPerSource, trusted: cfg.TrustedProxies,
		idleTimeout: cfg.IdleTimeout, headerTimeout: cfg.HeaderTimeout, bodyTimeout: cfg.BodyTimeout,
		bySource: make(map[netip.Addr]int), conns: make(map[*conn]struct{}), refusals: make(chan struct{}, refusing),
		accepting: make(chan struct{}), empty: make(chan struct{}),
	}
}

// Close takes no more connections. Those that there are stay open; a second call does nothing.
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

// noteEmpty is called with the lock held, whenever the last connection may have ended.
func (l *listener) noteEmpty() {
	if l.closed && l.open == 0 {
		select {
		case <-l.empty:
		default:
			close(l.empty)
		}
	}
}

// drain closes the listener and waits until no connection is left, but no longer than limit or ctx.
func (l *listener) drain(ctx context.Context, limit time.Duration) {
	_ = l.Close() // the server closes it again, and reports
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-l.empty:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Accept returns the next connection there is room for.
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
	if l.open >= l.maxConns || l.bySource[c.source] >= l.maxPerSource && !contains(l.trusted, c.peer) {
		return false
	}
	l.open++
	l.bySource[c.source]++
	l.conns[c] = struct{}{}
	return true
}

func (l *listener) release(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	delete(l.conns, c)
	if l.bySource[c.source]--; l.bySource[c.source] <= 0 {
		delete(l.bySource, c.source)
	}
	l.noteEmpty()
}

// stop closes the connections on which no request is under way, and has the others end with theirs.
// The server itself overlooks those that never had a request.
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

// refuse answers 503 and closes, without a request having been read.
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
		if c.SetDeadline(time.Now().Add(time.Second)) == nil {
			if _, err := c.Write(refusal()); err == nil {
				lingerBriefly(c)
			}
		}
	})
}

func refusal() []byte {
	body := appendFailure(nil, fault.Unavailable, "Too many connections. Try again.")
	head := "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: " + contentTypeJSON +
		"\r\nRetry-After: 1\r\nX-Request-Id: " + event.NewRequestID().String() +
		"\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}

func lingerBriefly(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	b := takeBuffer()
	defer putBuffer(b)
	for range 16 {
		if _, err := c.Read(*b); err != nil {
			return
		}
	}
}
