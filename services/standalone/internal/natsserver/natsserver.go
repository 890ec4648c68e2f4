// Package natsserver runs the journal server inside the process and keeps it running.
//
// Nothing listens: clients connect in the process, through InProcessConn, and reconnect through it.
// A stream that met a failing write (a full disk, say) takes no more messages, and a server that ran
// out of space turns JetStream off; neither comes back by itself. So the server is watched, and
// started anew on the same folder as soon as the folder can be written again. What was not
// acknowledged until then is published again by those who wait for it.
package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// ErrDown is returned to connections while the server is being started anew.
var ErrDown = errors.New("journal server is down")

const (
	maxPayloadBytes = 8 << 20
	startTimeout    = 30 * time.Second
	watchEvery      = 250 * time.Millisecond
	firstRetry      = 250 * time.Millisecond
	lastRetry       = 2 * time.Second
	memoryBytes     = 64 << 20
	// What the disk holds is the only bound: at a bound of its own the server would turn JetStream off.
	storeBytes = 1 << 60
)

// Options are what a Server needs.
type Options struct {
	Folder string
	Logger *slog.Logger
	// BeforeStart, if set, runs before each start on the folder's files, the first one too. Its error
	// stops the start.
	BeforeStart func(context.Context) error
}

// Server is a running journal server. All methods may be called concurrently.
type Server struct {
	opts     Options
	restarts sync.Mutex // one at a time

	mu      sync.Mutex
	current *server.Server // nil while down
	stopped bool
	count   int
}

// Start starts the server on its folder.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s := &Server{opts: opts}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	if s.opts.BeforeStart != nil {
		if err := s.opts.BeforeStart(ctx); err != nil {
			return err
		}
	}
	ns, err := server.NewServer(&server.Options{
		ServerName:             "quire",
		DontListen:             true,
		NoSigs:                 true,
		JetStream:              true,
		StoreDir:               s.opts.Folder,
		SyncAlways:             true,
		MaxPayload:             maxPayloadBytes,
		JetStreamMaxMemory:     memoryBytes,
		JetStreamMaxStore:      storeBytes,
		DisableJetStreamBanner: true,
	})
	if err != nil {
		return fmt.Errorf("make journal server: %w", err)
	}
	ns.SetLoggerV2(logger{s.opts.Logger}, false, false, false)
	ns.Start()
	if err := ready(ns); err != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
		return fmt.Errorf("start journal server: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		ns.Shutdown()
		ns.WaitForShutdown()
		return ErrDown
	}
	s.current = ns
	s.count++
	return nil
}

func ready(ns *server.Server) error {
	if !ns.ReadyForConnections(startTimeout) {
		return errors.New("it takes no connections")
	}
	return health(ns)
}

// Run watches the server until ctx ends. It does not stop it.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.Health(); err != nil {
			s.opts.Logger.Error("journal server can't store, starting it anew", "cause", err)
			s.recover(ctx)
		}
	}
}

// recover restarts until it works or ctx ends.
func (s *Server) recover(ctx context.Context) {
	for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, lastRetry) {
		err := s.Restart(ctx)
		if err == nil {
			s.opts.Logger.Info("journal server stores again")
			return
		}
		s.opts.Logger.Warn("journal server does not start yet", "cause", err)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
		}
	}
}

// Restart stops the server and starts it on the same folder; connections come back by themselves.
// After an error it is down, and Restart may be called again.
func (s *Server) Restart(ctx context.Context) error {
	s.restarts.Lock()
	defer s.restarts.Unlock()
	s.down()
	if err := rewriteTails(s.opts.Folder); err != nil {
		return fmt.Errorf("write the journal's ends again: %w", err)
	}
	return s.start(ctx)
}

// Stop stops the server for good and waits until its files are closed.
func (s *Server) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	s.down()
}

func (s *Server) down() {
	s.mu.Lock()
	ns := s.current
	s.current = nil
	s.mu.Unlock()
	if ns != nil {
		ns.Shutdown()
		ns.WaitForShutdown()
	}
}

// Starts counts how often the server has come up.
func (s *Server) Starts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Health is nil while every stream can be written.
func (s *Server) Health() error {
	s.mu.Lock()
	ns := s.current
	s.mu.Unlock()
	if ns == nil {
		return ErrDown
	}
	return health(ns)
}

// InProcessConn connects to the server of the moment: it is a nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	s.mu.Lock()
	ns := s.current
	s.mu.Unlock()
	if ns == nil {
		return nil, ErrDown
	}
	return ns.InProcessConn()
}

// health asks the server's own health check, which is only to be had as an HTTP handler. It finds
// disabled JetStream, streams that were not recovered, and streams with a write error.
func health(ns *server.Server) error {
	if !ns.JetStreamEnabled() {
		return errors.New("JetStream is disabled")
	}
	request, err := http.NewRequest(http.MethodGet, "/healthz", nil)
	if err != nil {
		return err
	}
	var answer verdict
	ns.HandleHealthz(&answer, request)
	if answer.status != 0 && answer.status != http.StatusOK {
		return fmt.Errorf("health check: %d %s", answer.status, answer.body)
	}
	return nil
}

// verdict takes an HTTP answer in.
type verdict struct {
	header http.Header
	status int
	body   []byte
}

func (v *verdict) Header() http.Header {
	if v.header == nil {
		v.header = http.Header{}
	}
	return v.header
}

func (v *verdict) WriteHeader(status int) { v.status = status }

func (v *verdict) Write(b []byte) (int, error) {
	v.body = append(v.body, b...)
	return len(b), nil
}

// logger passes the server's messages on; what it notices is for debugging.
type logger struct{ log *slog.Logger }

func (l logger) Noticef(format string, v ...any) {
	l.log.Debug("journal server", "text", fmt.Sprintf(format, v...))
}

func (l logger) Warnf(format string, v ...any) {
	l.log.Warn("journal server", "text", fmt.Sprintf(format, v...))
}

func (l logger) Errorf(format string, v ...any) {
	l.log.Error("journal server", "text", fmt.Sprintf(format, v...))
}

func (l logger) Fatalf(format string, v ...any) { l.Errorf(format, v...) }
func (l logger) Debugf(string, ...any)          {}
func (l logger) Tracef(string, ...any)          {}
