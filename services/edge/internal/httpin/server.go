// Package httpin takes HTTP requests for a Fiber program: connections and their limits, deadlines, request headers and
// bodies, and where a request comes from. It knows nothing of the program. Neither do the packages below it: httperr has the
// errors, input reads fields from JSON, queries and forms, headers has the grammars of header fields.
//
// fasthttp gets one request header at a time and never a body: docs/adr/0006-bodies-are-hidden-from-fasthttp.md. A
// handler reads the body itself, by ReadBody or BodyOf; fiber.Ctx.Body is always empty.
package httpin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// The defaults of Config.
const (
	DefaultMaxConns          = 16_384
	DefaultMaxConnsPerSource = 12_288
	DefaultHeaderBytes       = 8 << 10
	DefaultBodyBudgetBytes   = 96 << 20
	DefaultStreamBudgetBytes = 96 << 20
	DefaultIdleTimeout       = 75 * time.Second
	DefaultHeaderTimeout     = 10 * time.Second
	DefaultBodyTimeout       = 15 * time.Second
	DefaultStopGrace         = 10 * time.Second
	DefaultDrain             = 2 * time.Second
)

// Config says how a Server takes requests. New fills in the defaults. NewRequestID and Fail must be set.
type Config struct {
	MaxConns          int            // a further connection is told 503
	MaxConnsPerSource int            // likewise, for one IPv4 address or IPv6 /48; trusted proxies have no such limit
	TrustedProxies    []netip.Prefix // the peers whose X-Forwarded-For and X-Forwarded-Proto count
	HeaderBytes       int            // a larger request header is 431
	Single            []string       // headers that a request has once, beside those that frame it: a second one is 400
	BodyBudgetBytes   int64          // of all request bodies that are held in memory at a time; one source has a third
	StreamBudgetBytes int64          // likewise, of what is held of bodies that are streamed: see ReserveStream
	IdleTimeout       time.Duration  // of a connection between two requests, and before the first
	HeaderTimeout     time.Duration  // from a request's first byte to the end of its header
	BodyTimeout       time.Duration  // for a body, and a second more for each 16 KiB that have come
	StopGrace         time.Duration  // for the requests that run when Serve is told to stop
	Drain             time.Duration  // of StopGrace, for connections to be told by an answer that they end

	Logger *slog.Logger // nil: no log
	// NewRequestID draws the id of a request, which X-Request-Id shows. It is text that this package does not read.
	NewRequestID func() string
	// Fail answers a failed request. err is the error of the handler, or an *httperr.Error. Headers set so far stay unless
	// Fail takes them away. route is the pattern of the path, empty where no route was found. ctx has no connection
	// where one is refused.
	Fail func(ctx *fasthttp.RequestCtx, route string, err error)
	// Failing is called before Fail with what handlers and the router fail with. Where it returns true it has answered,
	// and Fail is not called. May be nil.
	Failing func(c *fiber.Ctx, err error) (answered bool)
	// Answered is called after each request. May be nil.
	Answered func(status int, took time.Duration)
}

func (cfg *Config) setDefaults() {
	setDefault(&cfg.MaxConns, DefaultMaxConns)
	setDefault(&cfg.MaxConnsPerSource, DefaultMaxConnsPerSource)
	setDefault(&cfg.HeaderBytes, DefaultHeaderBytes)
	setDefault(&cfg.BodyBudgetBytes, DefaultBodyBudgetBytes)
	setDefault(&cfg.StreamBudgetBytes, DefaultStreamBudgetBytes)
	setDefault(&cfg.IdleTimeout, DefaultIdleTimeout)
	setDefault(&cfg.HeaderTimeout, DefaultHeaderTimeout)
	setDefault(&cfg.BodyTimeout, DefaultBodyTimeout)
	setDefault(&cfg.StopGrace, DefaultStopGrace)
	setDefault(&cfg.Drain, DefaultDrain)
	setDefault(&cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Failing == nil {
		cfg.Failing = func(*fiber.Ctx, error) bool { return false }
	}
	if cfg.Answered == nil {
		cfg.Answered = func(int, time.Duration) {}
	}
}

func setDefault[T comparable](v *T, to T) { *v = cmp.Or(*v, to) }

// Server is a Fiber program's server. Routes are added before Serve.
type Server struct {
	cfg      Config
	app      *fiber.App
	draining atomic.Bool
	budget   *budget     // for bodies
	streams  *budget     // for what is held of bodies that are streamed
	proxied  atomic.Bool // see tellProxied
	ignored  atomic.Bool // see tellIgnored
	ctx      context.Context
	cancel   context.CancelFunc
}

// New prepares a server.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{cfg: cfg, budget: newBudget(cfg.BodyBudgetBytes, budgetWait), streams: newBudget(cfg.StreamBudgetBytes, streamWait)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.app = fiber.New(fiber.Config{
		CaseSensitive: true, StrictRouting: true, DisableStartupMessage: true,
		ErrorHandler: s.onError, ReadBufferSize: cfg.HeaderBytes, WriteBufferSize: 4 << 10,
		ReduceMemoryUsage: true, DisablePreParseMultipartForm: true,
		Concurrency: cfg.MaxConns + refusing, // the listener refuses first, and says why
		// With no proxy that fiber trusts, its Hostname and Protocol do not read what a client may write. Source and
		// BehindTLS know Config.TrustedProxies.
		EnableTrustedProxyCheck: true,
	})
	next := s.app.Handler()
	http := s.app.Server()
	http.HeaderReceived = hideBody
	http.CloseOnShutdown = true
	http.NoDefaultContentType = true
	http.Handler = func(ctx *fasthttp.RequestCtx) { s.handle(ctx, next) }
	return s
}

// Handle adds a route. A GET route answers HEAD too. OPTIONS, and a method that the path does not have, are answered
// with the methods that it has.
func (s *Server) Handle(method, path string, h fiber.Handler) {
	if method == fiber.MethodGet {
		s.app.Get(path, h)
		return
	}
	s.app.Add(method, path, h)
}

// HandleName adds a handler for paths of one segment, such as /main.go, that no other route has in any method. It is
// called after all other routes are added.
func (s *Server) HandleName(method string, h fiber.Handler) {
	s.app.Use(func(c *fiber.Ctx) error {
		err := c.Next() // no other route has this path in this method: 404, or 405 where one has it in another
		unknown, ok := errors.AsType[*fiber.Error](err)
		if !ok || unknown.Code != fiber.StatusNotFound || c.Method() != method || !oneSegment(c.Path()) {
			return err
		}
		return h(c)
	})
}

// HandleMissing adds a handler for GET and HEAD of paths that no route has in any method. err is the 404; the handler
// returns it where it has no better answer. It is called after all other routes are added.
func (s *Server) HandleMissing(h func(c *fiber.Ctx, err error) error) {
	s.app.Use(func(c *fiber.Ctx) error {
		err := c.Next()
		unknown, ok := errors.AsType[*fiber.Error](err)
		if !ok || unknown.Code != fiber.StatusNotFound || c.Method() != fiber.MethodGet && c.Method() != fiber.MethodHead {
			return err
		}
		return h(c, s.fromFramework(err))
	})
}

// oneSegment tells whether a path is a slash and a name. Clients take /. and /.. for folders.
func oneSegment(path string) bool {
	name, ok := strings.CutPrefix(path, "/")
	return ok && name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}

// Context is for the calls that handlers make. It ends when Serve returns: requests that run when a stop begins still
// need it. That of a fiber.Ctx ends when the stop begins.
func (s *Server) Context() context.Context { return s.ctx }

// Serve answers requests on ln until ctx ends. Then it takes no more connections, and ends each one with its next
// answer: closing a connection while the client is sending would hide the answer from it. Idle connections are closed
// after Config.Drain. Running requests get Config.StopGrace. Serve is called once, and closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer s.cancel()
	wrapped := newListener(ln, s)
	served := make(chan error, 1)
	go func() { served <- s.app.Listener(wrapped) }()
	var err error
	select {
	case err = <-served:
		if err == nil {
			err = errors.New("the listener was closed")
		}
	case <-ctx.Done():
		<-wrapped.accepting // a shutdown before that would go unnoticed, and serving never end
		s.draining.Store(true)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopGrace)
		defer cancel()
		wrapped.drain(grace, s.cfg.Drain)
		wrapped.stop()
		if err = s.app.ShutdownWithContext(grace); errors.Is(err, context.DeadlineExceeded) {
			s.cfg.Logger.Warn("requests were still running at the end of the grace period")
			err = nil
		}
		<-served //nolint:errcheck // the listener is closed, as was wanted
	}
	wrapped.waiting.Wait()
	return err
}

// handle surrounds every request: its id, its body, a panic, and the state of the connection after it.
func (s *Server) handle(ctx *fasthttp.RequestCtx, next fasthttp.RequestHandler) {
	c := ctx.Conn().(*conn)
	c.handled = true
	started := time.Now()
	c.current = requestState{id: s.cfg.NewRequestID()}
	ctx.Response.Header.Set(fiber.HeaderXRequestID, c.current.id)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	if len(s.cfg.TrustedProxies) > 0 && !s.proxied.Load() {
		s.tellProxied(c.peer, &ctx.Request.Header)
	}
	if c.head.close {
		ctx.SetConnectionClose()
	}
	c.openBody()
	s.run(ctx, next)
	if c.body != nil {
		c.body.finish(ctx)
		c.body = nil
	}
	if c.current.share != nil {
		s.budget.release(c.current.share)
	}
	if c.current.stream != nil {
		s.streams.release(c.current.stream)
	}
	s.cfg.Answered(ctx.Response.StatusCode(), time.Since(started))
}

func (s *Server) run(ctx *fasthttp.RequestCtx, next fasthttp.RequestHandler) {
	defer func() {
		if r := recover(); r != nil {
			id := ctx.Conn().(*conn).current.id
			s.cfg.Logger.Error("handler panicked", "request", id, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			ctx.Response.Reset()
			ctx.Response.Header.Set(fiber.HeaderXRequestID, id)
			s.cfg.Fail(ctx, "", internal(nil))
		}
	}()
	if string(ctx.RequestURI()) == "*" { // OPTIONS asks what the server takes at all (RFC 9110, 9.3.7)
		ctx.Response.Header.Set(fiber.HeaderAllow, "GET, HEAD, POST, PUT, DELETE, OPTIONS")
		ctx.SetStatusCode(fiber.StatusNoContent)
		return
	}
	if !knownMethod(ctx.Method()) {
		ctx.Request.Header.SetMethod(fiber.MethodPatch) // no route has it: the answer is 404, or 405 with the path's methods
	}
	next(ctx)
}

func knownMethod(m []byte) bool {
	switch string(m) {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		return true
	}
	return false
}

// onError gets the error of a handler, and those of the framework and of fasthttp about a path, a method or a header.
func (s *Server) onError(c *fiber.Ctx, err error) error {
	ctx := c.Context()
	if len(ctx.Response.Header.Peek(fiber.HeaderXRequestID)) == 0 { // fasthttp could not read the header
		ctx.Response.Header.Set(fiber.HeaderXRequestID, s.cfg.NewRequestID())
	}
	err = s.fromFramework(err)
	if conn := connOf(c); conn.failed != nil {
		conn.linger.Store(true)
		ctx.Response.SkipBody = conn.head.isHead
		if conn.head.refusal != nil {
			err = conn.head.refusal
		}
	}
	if e, ok := errors.AsType[*httperr.Error](err); ok && e.Code == httperr.CodeMethodNotAllowed {
		c.Append(fiber.HeaderAllow, fiber.MethodOptions)
		if c.Method() == fiber.MethodOptions {
			c.Status(fiber.StatusNoContent)
			return nil
		}
		e.Message = "Method not allowed: this path takes " + string(c.Response().Header.Peek(fiber.HeaderAllow)) + "."
	}
	if !s.cfg.Failing(c, err) {
		s.cfg.Fail(ctx, c.Route().Path, err)
	}
	return nil
}

func connOf(c *fiber.Ctx) *conn { return c.Context().Conn().(*conn) }

// RequestID is the id of the request.
func RequestID(c *fiber.Ctx) string { return connOf(c).current.id }

// SetRequestID gives the request another id from here on.
func SetRequestID(c *fiber.Ctx, id string) {
	connOf(c).current.id = id
	c.Response().Header.Set(fiber.HeaderXRequestID, id)
}
