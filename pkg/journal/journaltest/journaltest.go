// Package journaltest runs the real journal server in the process of a test:
// JetStream in a temporary folder, with fsync on every write as in production.
package journaltest

import (
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"quire.dev/pkg/freeport"
)

// readyWait bounds the start of a server.
const readyWait = 2 * time.Minute

// Option configures a server.
type Option func(*server.Options)

// WithMaxStore bounds the bytes stored by all streams together.
func WithMaxStore(bytes int64) Option {
	return func(o *server.Options) { o.JetStreamMaxStore = bytes }
}

// WithMaxPayload bounds one message, in bytes.
func WithMaxPayload(bytes int32) Option {
	return func(o *server.Options) { o.MaxPayload = bytes }
}

// WithFolder stores in dir instead of a temporary folder.
func WithFolder(dir string) Option {
	return func(o *server.Options) { o.StoreDir = dir }
}

// WithListener makes the server listen on a free port of the loopback address,
// and on the same one after Restart.
func WithListener(t testing.TB) Option {
	t.Helper()
	port := freePort(t)
	return func(o *server.Options) {
		o.DontListen = false
		o.Host, o.Port = "127.0.0.1", port
	}
}

func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Next()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Server is a journal server that can be stopped and restarted in the same
// folder; its connections reconnect automatically.
type Server struct {
	opts *server.Options

	mu      sync.Mutex
	running *server.Server // nil while stopped
}

// Start runs a server until the test ends. Without WithListener it is reachable
// only through Conn.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := prepare(t, options)
	s.run(t)
	t.Cleanup(s.Stop)
	return s
}

func prepare(t testing.TB, options []Option) *Server {
	t.Helper()
	opts := &server.Options{
		ServerName: "journaltest",
		JetStream:  true,
		SyncAlways: true,
		DontListen: true,
		NoSigs:     true,
		NoLog:      true,
	}
	for _, option := range options {
		option(opts)
	}
	if opts.StoreDir == "" {
		opts.StoreDir = t.TempDir()
	}
	return &Server{opts: opts}
}

func (s *Server) run(t testing.TB) {
	t.Helper()
	srv, err := server.NewServer(s.opts.Clone())
	if err != nil {
		t.Fatalf("new server: %v", err)
	}
	srv.Start()
	if !srv.ReadyForConnections(readyWait) {
		t.Fatalf("server was not ready in %v", readyWait)
	}
	s.mu.Lock()
	s.running = srv
	s.mu.Unlock()
}

// Stop shuts the server down in an orderly way and closes its connections.
func (s *Server) Stop() {
	s.mu.Lock()
	srv := s.running
	s.running = nil
	s.mu.Unlock()
	if srv != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
}

// Restart stops the server, if it runs, and starts it in the same folder.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Stop()
	s.run(t)
}

// Folder is the server's storage folder.
func (s *Server) Folder() string { return s.opts.StoreDir }

// URL is where a server with WithListener listens.
func (s *Server) URL() string {
	srv := s.server()
	if srv == nil {
		return ""
	}
	return srv.ClientURL()
}

// InProcessConn connects to the server now running. It implements
// nats.InProcessConnProvider.
func (s *Server) InProcessConn() (net.Conn, error) {
	srv := s.server()
	if srv == nil {
		return nil, errors.New("server is stopped")
	}
	return srv.InProcessConn()
}

// Conn connects inside the process until the test ends, and reconnects whenever
// the server is back.
func (s *Server) Conn(t testing.TB, options ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, "", append([]nats.Option{nats.InProcessServer(s)}, options...))
}

// server returns the server now running, or nil.
func (s *Server) server() *server.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// Drop cuts all connections, as a network would; clients reconnect.
func (s *Server) Drop() {
	srv := s.server()
	if srv == nil {
		return
	}
	conns, err := srv.Connz(&server.ConnzOptions{})
	if err != nil {
		return // the server is shutting down and drops them itself
	}
	for _, c := range conns.Conns {
		_ = srv.DisconnectClientByID(c.Cid) // it may be gone already
	}
}
