// Package natsserver runs the journal server inside the process and keeps it running.
//
// The server has no listener. Clients connect and reconnect within the process, through InProcessConn, and Share passes on the
// connections of a socket. After a failed write, on
// a full disk for example, a stream takes no more messages. A server without disk space turns JetStream off. Neither recovers
// by itself. For this reason Run watches the server, and restarts it on the same folder once the folder is writable. Clients
// republish whatever was not acknowledged.
package natsserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"quire.dev/pkg/natsfiles"
	"quire.dev/pkg/wait"
	"quire.dev/services/standalone/internal/durable"
)

// ErrDown is the error of connections during a restart of the server.
var ErrDown = errors.New("journal server is down")

const (
	maxPayloadBytes = 8 << 20
	startTimeout    = 30 * time.Second
	watchEvery      = 250 * time.Millisecond
	minRetry        = 250 * time.Millisecond
	maxRetry        = 2 * time.Second
	memoryBytes     = 64 << 20
	// Only the disk is the limit. The server turns JetStream off at its own limit.
	storeBytes = 1 << 60
)

// Options of a Server. Folder and Logger are required.
type Options struct {
	Folder string
	Logger *slog.Logger
	// BeforeStart, if not nil, is called before each start. Its error prevents the start.
	BeforeStart func(context.Context) error
	// Plain means that only the server reads or writes its files, since their format is unknown: see natsfiles.Supports.
	Plain bool
}

// Version is the server's version.
const Version = server.VERSION

// Server is a running journal server. Safe for concurrent use.
type Server struct {
	opts     Options
	restarts sync.Mutex // held during a restart

	mu      sync.Mutex
	current *server.Server // nil while down
	stopped bool
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
		return fmt.Errorf("create journal server: %w", err)
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
	return nil
}

func ready(ns *server.Server) error {
	if !ns.ReadyForConnections(startTimeout) {
		return errors.New("it accepts no connections")
	}
	return health(ns)
}

// Run watches the server until ctx ends. It does not stop it.
func (s *Server) Run(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var w watcher
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := w.filter(s.Health()); err != nil {
			s.opts.Logger.Error("journal server can't write and is restarted", "cause", err)
			s.recover(ctx)
		}
	}
}

// lastingChecks is how many successive checks must fail before a restart.
const lastingChecks = 4

// watcher separates lasting failures from passing ones. A stream has its folder a moment before the server knows it: a check in
// between takes it for lost.
type watcher struct{ failed int }

// filter returns the error of a check if the previous ones failed too.
func (w *watcher) filter(err error) error {
	if err == nil {
		w.failed = 0
		return nil
	}
	if w.failed++; w.failed < lastingChecks {
		return nil
	}
	w.failed = 0
	return err
}

// recover restarts the server until that succeeds or ctx ends.
func (s *Server) recover(ctx context.Context) {
	retry := wait.Backoff{Initial: minRetry, Max: maxRetry}
	for ctx.Err() == nil {
		err := s.Restart(ctx)
		if err == nil {
			s.opts.Logger.Info("journal server writes again")
			return
		}
		s.opts.Logger.Warn("journal server does not start so far", "cause", err)
		retry.Wait(ctx)
	}
}

// Restart stops the server and starts it on the same folder. Clients reconnect automatically. After an error the server is
// down, and Restart may be called again.
func (s *Server) Restart(ctx context.Context) error {
	s.restarts.Lock()
	defer s.restarts.Unlock()
	s.down()
	if !s.opts.Plain {
		if err := natsfiles.RewriteTails(s.opts.Folder, durable.Write); err != nil {
			return fmt.Errorf("rewrite the ends of the journals: %w", err)
		}
	}
	return s.start(ctx)
}

// Stop stops the server permanently and waits until its files are closed.
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

// Health returns an error if a stream can't be written.
func (s *Server) Health() error {
	ns, err := s.running()
	if err != nil {
		return err
	}
	return health(ns)
}

func (s *Server) running() (*server.Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, ErrDown
	}
	return s.current, nil
}

// InProcessConn connects to the current server. It implements nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	ns, err := s.running()
	if err != nil {
		return nil, err
	}
	return ns.InProcessConn()
}

// health runs the server's own health check, which exists only as an HTTP handler. It detects disabled JetStream, streams that
// were not recovered, and streams with a write error.
func health(ns *server.Server) error {
	if !ns.JetStreamEnabled() {
		return errors.New("JetStream is disabled")
	}
	return retryCheck(func() (recorder, error) {
		var answer recorder
		request, err := http.NewRequest(http.MethodGet, "/healthz?details=true", nil)
		if err == nil {
			ns.HandleHealthz(&answer, request)
		}
		if answer.onlyDeleted() {
			return recorder{}, err
		}
		return answer, err
	})
}

// healthTries is how often an apparently unstarted server is checked again.
const healthTries = 20

// retryCheck repeats a health check that fails by chance: it gives the server, which has already started, a millisecond to say
// so, which may not suffice on busy processors, not even to ask.
func retryCheck(check func() (recorder, error)) error {
	for tries := 1; ; tries++ {
		answer, err := check()
		if err != nil || answer.status == 0 || answer.status == http.StatusOK {
			return err
		}
		if tries == healthTries || !bytes.Contains(answer.body, []byte("failed to be ready for connections")) {
			return fmt.Errorf("health check: %d %s", answer.status, answer.body)
		}
	}
}

// recorder records the response of an HTTP handler.
type recorder struct {
	header http.Header
	status int
	body   []byte
}

// onlyDeleted reports whether the only failures are streams being deleted. The server renames those to begin with a dot; after a
// kill, its next start removes the rest.
func (r *recorder) onlyDeleted() bool {
	var health server.HealthStatus
	if r.status != http.StatusServiceUnavailable || json.Unmarshal(r.body, &health) != nil || len(health.Errors) == 0 {
		return false
	}
	return !slices.ContainsFunc(health.Errors, func(e server.HealthzError) bool { return !strings.HasPrefix(e.Stream, ".") })
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(b []byte) (int, error) {
	r.body = append(r.body, b...)
	return len(b), nil
}

// logger logs the server's messages, notices at debug level.
type logger struct{ log *slog.Logger }

func (l logger) Noticef(format string, v ...any) {
	l.log.Debug("journal server", "text", fmt.Sprintf(format, v...))
}

func (l logger) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Healthcheck failed") {
		return // Run reports what lasts
	}
	l.log.Warn("journal server", "text", fmt.Sprintf(format, v...))
}

func (l logger) Errorf(format string, v ...any) {
	l.log.Error("journal server", "text", fmt.Sprintf(format, v...))
}

func (l logger) Fatalf(format string, v ...any) { l.Errorf(format, v...) }
func (l logger) Debugf(string, ...any)          {}
func (l logger) Tracef(string, ...any)          {}
