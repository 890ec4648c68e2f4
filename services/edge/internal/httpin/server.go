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

// Config configures a Server. New fills in the defaults. NewRequestID and Fail must be set.
type Config struct {
	MaxConns          int            // further connections get 503
	MaxConnsPerSource int            // of one IPv4 address or IPv6 /48; trusted proxies have no such limit
	TrustedProxies    []netip.Prefix // peers whose X-Forwarded-For and X-Forwarded-Proto are trusted
	HeaderBytes       int            // a larger request header is 431
	Single            []string       // headers that must not be repeated, besides the framing ones: a second one is 400
	BodyBudgetBytes   int64          // memory for all concurrent request bodies; one source may use a third
	StreamBudgetBytes int64          // memory for the buffers of streamed bodies: see ReserveStream
	IdleTimeout       time.Duration  // of a connection between two requests, and before the first
	HeaderTimeout     time.Duration  // from a request's first byte to the end of its header
	BodyTimeout       time.Duration  // for a body, plus a second for each 16 KiB received
	StopGrace         time.Duration  // for running requests at shutdown
	Drain             time.Duration  // part of StopGrace, for answers that close their connections

	Logger *slog.Logger // nil: no log
	// NewRequestID returns a new request id, which X-Request-Id shows. This package does not interpret it.
	NewRequestID func() string
	// Fail answers a failed request. err is the handler's error or an *httperr.Error. Headers set so far remain unless Fail
	// deletes them. route is the pattern of the path, empty if no route matched. When a connection is refused, ctx has none.
	Fail func(ctx *fasthttp.RequestCtx, route string, err error)
	// Failing sees the errors of handlers and of the router before Fail does. If it returns true it has answered, and Fail is
	// not called. May be nil.
	Failing func(c *fiber.Ctx, err error) (answered bool)
	// Answered is called after each request, before its answer is sent. May be nil.
	Answered func(ctx *fasthttp.RequestCtx, a Answer)
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
		cfg.Answered = func(*fasthttp.RequestCtx, Answer) {}
	}
}

// Answer is what Config.Answered learns of a request and its answer.
type Answer struct {
	RequestID string
	Started   time.Time
	Took      time.Duration // from the request's header to the beginning of the answer
	BodyWait  time.Duration // part of Took, spent waiting for the client to send the body
	Note      any           // see Note
}

func setDefault[T comparable](v *T, to T) { *v = cmp.Or(*v, to) }

// Server serves HTTP by Fiber. Routes must be added before Serve.
type Server struct {
	cfg      Config
	app      *fiber.App
	draining atomic.Bool
	budget   *budget     // of bodies
	streams  *budget     // of the buffers of streamed bodies
	proxied  atomic.Bool // see tellProxied
	ignored  atomic.Bool // see tellIgnored
	ctx      context.Context
	cancel   context.CancelFunc
}

// New returns a server with no routes.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{cfg: cfg, budget: newBudget(cfg.BodyBudgetBytes, budgetWait), streams: newBudget(cfg.StreamBudgetBytes, streamWait)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.app = fiber.New(fiber.Config{
		CaseSensitive: true, StrictRouting: true, DisableStartupMessage: true,
		ErrorHandler: s.onError, ReadBufferSize: cfg.HeaderBytes, WriteBufferSize: 4 << 10,
		ReduceMemoryUsage: true, DisablePreParseMultipartForm: true,
		Concurrency: cfg.MaxConns + refusing, // the listener refuses earlier, and says why
		// Fiber trusts no proxy here, so that its Hostname and Protocol ignore headers that clients may forge. Source and
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

// Handle adds a route. A GET route answers HEAD too. OPTIONS lists the methods of a path, as does the 405 for a method it
// lacks.
func (s *Server) Handle(method, path string, h fiber.Handler) {
	if method == fiber.MethodGet {
		s.app.Get(path, h)
		return
	}
	s.app.Add(method, path, h)
}

// HandleName adds a handler for single-segment paths, such as /main.go, that match no other route in any method. Call it
// after all other routes are added.
func (s *Server) HandleName(method string, h fiber.Handler) {
	s.app.Use(func(c *fiber.Ctx) error {
		err := c.Next() // no other route has this path and method: 404, or 405 if one has the path
		unknown, ok := errors.AsType[*fiber.Error](err)
		if !ok || unknown.Code != fiber.StatusNotFound || c.Method() != method || !oneSegment(c.Path()) {
			return err
		}
		return h(c)
	})
}

// HandleMissing adds a handler for GET and HEAD of paths that match no route in any method. err is the 404, which the handler
// returns unless it has a better answer. Call it after all other routes are added.
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

// oneSegment reports whether a path is a slash and a name. Clients take /. and /.. for folders.
func oneSegment(path string) bool {
	name, ok := strings.CutPrefix(path, "/")
	return ok && name != "" && name != "." && name != ".." && !strings.Contains(name, "/")
}

// Context is the context for calls that handlers make. It ends when Serve returns, since requests running at shutdown still
// need it; a fiber.Ctx's own ends when the shutdown begins.
func (s *Server) Context() context.Context { return s.ctx }

// Serve answers requests on ln until ctx ends. Then it stops accepting connections, and closes each one after its next
// answer: closing a connection while the client sends would hide the answer from it. Idle connections are closed after
// Config.Drain. Running requests get Config.StopGrace. Serve must be called only once, and closes ln.
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
		<-wrapped.accepting // an earlier shutdown would go unnoticed, and serving would never end
		s.draining.Store(true)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopGrace)
		defer cancel()
		wrapped.drain(grace, s.cfg.Drain)
		wrapped.stop()
		if err = s.app.ShutdownWithContext(grace); errors.Is(err, context.DeadlineExceeded) {
			s.cfg.Logger.Warn("requests were still running at the end of the grace period")
			err = nil
		}
		<-served //nolint:errcheck // the listener was closed on purpose
	}
	wrapped.waiting.Wait()
	return err
}

// handle wraps every request: it sets its id and body, recovers panics, and checks the connection afterwards.
func (s *Server) handle(ctx *fasthttp.RequestCtx, next fasthttp.RequestHandler) {
	c := ctx.Conn().(*conn)
	c.handled = true
	started := time.Now()
	c.current = requestState{id: s.cfg.NewRequestID(), started: started}
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
	waited := c.bodyWait()
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
	s.cfg.Answered(ctx, Answer{
		RequestID: c.current.id, Started: started, Took: time.Since(started), BodyWait: waited, Note: c.current.note,
	})
	c.current.note = nil
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
	if string(ctx.RequestURI()) == "*" { // OPTIONS * asks for the methods of the server (RFC 9110, 9.3.7)
		ctx.Response.Header.Set(fiber.HeaderAllow, "GET, HEAD, POST, PUT, DELETE, OPTIONS")
		ctx.SetStatusCode(fiber.StatusNoContent)
		return
	}
	if !knownMethod(ctx.Method()) {
		ctx.Request.Header.SetMethod(fiber.MethodPatch) // no route has PATCH, so the answer is 404, or 405 with the path's methods
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

// onError is Fiber's error handler: for errors of handlers, and of the router and fasthttp about a path, method or header.
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
		e.Message = "Method not allowed: this path allows " + string(c.Response().Header.Peek(fiber.HeaderAllow)) + "."
	}
	if !s.cfg.Failing(c, err) {
		s.cfg.Fail(ctx, c.Route().Path, err)
	}
	return nil
}

func connOf(c *fiber.Ctx) *conn { return c.Context().Conn().(*conn) }

// RequestID returns the id of the request.
func RequestID(c *fiber.Ctx) string { return connOf(c).current.id }

// Started is when the header of the request had been read.
func Started(c *fiber.Ctx) time.Time { return connOf(c).current.started }

// Note keeps a value of the program with the request, for Config.Answered.
func Note(c *fiber.Ctx, note any) { connOf(c).current.note = note }

// BodyWait is the time that the request has spent waiting for the client to send the body.
func BodyWait(c *fiber.Ctx) time.Duration { return connOf(c).bodyWait() }

// SetRequestID changes the id of the running request.
func SetRequestID(c *fiber.Ctx, id string) {
	connOf(c).current.id = id
	c.Response().Header.Set(fiber.HeaderXRequestID, id)
}
