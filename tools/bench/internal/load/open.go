package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"

	"quire.dev/pkg/num"
)

// Open runs an open loop. It fails if the plan is invalid, if ctx ends, or if the server refuses the first connections; failed
// requests are counted.
//
// One goroutine serves all connections, with epoll. With a goroutine for each of 256 connections, the client's own scheduler
// held requests and answers back for longer than the server did.
func Open(ctx context.Context, p Plan) (Outcome, error) {
	if p.PerSecond <= 0 || p.Duration < time.Second || p.Connections < 1 {
		return Outcome{}, errors.New("an open loop needs a rate, a second at least and a connection")
	}
	if err := ctx.Err(); err != nil {
		return Outcome{}, err
	}
	l, err := newOpenLoop(p)
	if err != nil {
		return Outcome{}, err
	}
	defer l.close()
	if err := l.run(ctx); err != nil {
		return Outcome{}, err
	}
	return l.figures.outcome(int(p.Duration.Seconds())), nil
}

// openLoop is the state of one open loop. One goroutine uses it.
type openLoop struct {
	plan    Plan
	host    string
	request []byte // as it is sent
	epoll   int
	timer   int // a descriptor that can be read when the next request is due
	all     []*connection
	byFD    map[int32]*connection
	idle    []*connection
	piece   []byte // room for what is read at once
	header  fasthttp.ResponseHeader
	reader  *bufio.Reader
	figures figures

	started time.Time
	total   int // requests of the plan
	next    int // number of the next one
}

// connection has at most one request in flight.
type connection struct {
	file      *os.File // nil if it is to be reopened
	fd        int
	busy      bool
	due, sent time.Duration // of the request in flight, since the start
	answer    []byte        // received part of its answer
}

// tick bounds the wait for events: how late the end of a context and an answer that does not come are noticed.
const tick = 100 * time.Millisecond

func newOpenLoop(p Plan) (l *openLoop, err error) {
	target, err := url.Parse(p.URL)
	if err != nil {
		return nil, err
	}
	request := fasthttp.AcquireRequest()
	defer fasthttp.ReleaseRequest(request)
	p.write(request)
	var bytesOf bytes.Buffer
	if _, err := request.WriteTo(&bytesOf); err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	l = &openLoop{
		plan: p, host: target.Host, request: bytesOf.Bytes(), epoll: -1, timer: -1,
		byFD: map[int32]*connection{}, piece: make([]byte, 64<<10), reader: bufio.NewReaderSize(nil, 16<<10),
		figures: newFigures(), total: int(p.PerSecond * p.Duration.Seconds()),
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make an epoll: %w", err)
	}
	if l.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	if err := l.watch(l.timer); err != nil {
		return nil, err
	}
	for range p.Connections {
		c := &connection{}
		if err := l.connect(c); err != nil {
			return nil, err
		}
		l.all, l.idle = append(l.all, c), append(l.idle, c)
	}
	return l, nil
}

func (l *openLoop) watch(fd int) error {
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: num.Int32(fd)}); err != nil {
		return fmt.Errorf("watch a descriptor: %w", err)
	}
	return nil
}

func (l *openLoop) close() {
	for _, c := range l.all {
		l.disconnect(c)
	}
	for _, fd := range []int{l.timer, l.epoll} {
		if fd >= 0 {
			_ = unix.Close(fd) // nothing was written
		}
	}
}

// connect opens the connection.
func (l *openLoop) connect(c *connection) error {
	dialed, err := net.DialTimeout("tcp", l.host, answerLimit)
	if err != nil {
		return err
	}
	defer func() { _ = dialed.Close() }() // the file is a copy
	file, err := dialed.(*net.TCPConn).File()
	if err != nil {
		return err
	}
	c.file, c.fd = file, int(file.Fd())
	if err := unix.SetNonblock(c.fd, true); err != nil {
		return err
	}
	l.byFD[num.Int32(c.fd)] = c
	return l.watch(c.fd)
}

func (l *openLoop) disconnect(c *connection) {
	if c.file != nil {
		delete(l.byFD, num.Int32(c.fd))
		_ = c.file.Close() // the epoll forgets it
		c.file = nil
	}
}

// dueAt is when a request is due, since the start.
func (l *openLoop) dueAt(number int) time.Duration {
	return time.Duration(float64(number) / l.plan.PerSecond * float64(time.Second))
}

func (l *openLoop) run(ctx context.Context) error {
	l.started = time.Now()
	events := make([]unix.EpollEvent, l.plan.Connections+1)
	swept := time.Duration(0)
	for l.next < l.total || len(l.idle) < len(l.all) {
		if err := ctx.Err(); err != nil {
			return err
		}
		l.sendDue()
		n, err := l.await(events)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if c := l.byFD[e.Fd]; c != nil {
				l.receive(c)
			}
		}
		if now := time.Since(l.started); now-swept >= tick {
			swept = now
			l.giveUp(now - answerLimit)
		}
	}
	return nil
}

// sendDue sends the requests that are due, as long as there are idle connections.
func (l *openLoop) sendDue() {
	for l.next < l.total && len(l.idle) > 0 {
		now, due := time.Since(l.started), l.dueAt(l.next)
		if now < due {
			return
		}
		c := l.idle[len(l.idle)-1]
		l.idle = l.idle[:len(l.idle)-1]
		l.next++
		c.busy, c.due, c.sent, c.answer = true, due, now, c.answer[:0]
		record(l.figures.late, now-due)
		if c.file == nil {
			if err := l.connect(c); err != nil {
				l.fail(c, err)
				continue
			}
		}
		if n, err := unix.Write(c.fd, l.request); err != nil || n < len(l.request) {
			l.fail(c, fmt.Errorf("sent %d of %d bytes: %w", n, len(l.request), err))
		}
	}
}

// await waits until something can be read, the next request is due, or a tick is over. It returns the number of events.
func (l *openLoop) await(events []unix.EpollEvent) (int, error) {
	left := tick
	if l.next < l.total && len(l.idle) > 0 {
		left = min(left, l.dueAt(l.next)-time.Since(l.started))
	}
	at := unix.NsecToTimespec(max(int64(left), 1)) // 0 would stop the timer
	if err := unix.TimerfdSettime(l.timer, 0, &unix.ItimerSpec{Value: at}, nil); err != nil {
		return 0, fmt.Errorf("set the timer: %w", err)
	}
	n, err := unix.EpollWait(l.epoll, events, -1)
	if errors.Is(err, unix.EINTR) {
		return 0, nil
	}
	return n, err
}

// receive reads what has arrived on a connection.
func (l *openLoop) receive(c *connection) {
	n, err := unix.Read(c.fd, l.piece)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return
	case err == nil && n == 0:
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		if c.busy {
			l.fail(c, err)
		} else {
			l.disconnect(c)
		}
		return
	}
	c.answer = append(c.answer, l.piece[:n]...)
	status, body, whole, err := l.parse(c.answer)
	switch {
	case err != nil:
		l.fail(c, err)
	case !whole:
	case status/100 != 2:
		l.figures.fail(fmt.Errorf("status %d: %.200s", status, body))
		l.finish(c)
	default:
		now := time.Since(l.started)
		l.figures.countAnswer(now-c.due, int(now/time.Second))
		l.finish(c)
	}
}

// parse reports whether data is a complete answer.
func (l *openLoop) parse(data []byte) (status int, body []byte, whole bool, err error) {
	end := bytes.Index(data, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, nil, false, nil
	}
	l.reader.Reset(bytes.NewReader(data))
	if err := l.header.Read(l.reader); err != nil {
		return 0, nil, false, err
	}
	length := l.header.ContentLength()
	if length < 0 {
		return 0, nil, false, errors.New("an answer without Content-Length")
	}
	body = data[end+4:]
	return l.header.StatusCode(), body, len(body) >= length, nil
}

// finish marks a connection idle after its request.
func (l *openLoop) finish(c *connection) {
	c.busy = false
	l.idle = append(l.idle, c)
	if l.header.ConnectionClose() {
		l.disconnect(c)
	}
}

// fail ends a request that gets no answer, and its connection.
func (l *openLoop) fail(c *connection, err error) {
	l.figures.fail(err)
	l.disconnect(c)
	c.busy = false
	l.idle = append(l.idle, c)
}

// giveUp fails the requests that were sent before that time.
func (l *openLoop) giveUp(before time.Duration) {
	for _, c := range l.all {
		if c.busy && c.sent < before {
			l.fail(c, os.ErrDeadlineExceeded)
		}
	}
}
