// Package web is the edge's HTTP: routes, authentication, validation, and the answers of the
// contract. What is decided elsewhere it asks of package bus.
//
// Handlers are func(*fiber.Ctx) error. What they share:
//
//	route(method, path, h)    registers; GET answers HEAD too, 405 and OPTIONS come by themselves
//	return fault.New(...)     every failure: onError turns it into the contract's JSON (errors.go)
//	s.json(c, status, v)      answers by encoding/json, for what is not hot (respond.go)
//	appendString, appendTime  the pieces of hand-written answers (respond.go)
//	s.now()                   the edge's clock, QUIRE_CLOCK_OFFSET included
//	requestID(c)              the request's id, also in X-Request-Id
//	s.ctx                     the context for calls to the bus: NOT c.Context(), which ends when
//	                          a graceful stop begins
//	s.readBody(c, limit)      the whole body; 413 and 408 come out of it (body.go). c.Body() is empty
//	requireJSON(c)            415 unless the body is JSON (fields.go)
//	parseObject(b, fn)        one JSON object, field by field: malformed, duplicates (jsonin.go)
//	unknownField, invalidField  the 400s of validation (fields.go)
//	queryFields(c, fn)        the query parameters, each once, the same way (fields.go)
//	s.keyCaller(c)            API key → caller; found, not sent, or 401 (auth.go)
//	s.sessionAccount(c)       hook of session.go, through Server.session (auth.go)
//	s.source(c), s.network(c) who sends: address as counted, and its pseudo-account (origin.go)
//	idempotencyID(c, scope)   the id of the Idempotency-Key, checked; bodyHash goes with it (idempotency.go)
//	s.hashPassword, s.checkPassword  argon2id, bounded (password.go)
//	s.openContent(...)        a document's content, inline or blob (content.go)
//	writeRange(c, ...)        Range, If-Range, 206 and 416 over a stream (ranges.go)
//	s.failures                per source failure counts (limits.go)
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/fault"
)

// Config says how the edge speaks HTTP. New fills in defaults.
type Config struct {
	PublicURL         string         // without a slash at its end; "http://<listener>" where empty
	AdminToken        string         // empty: the admin paths do not exist
	TrustedProxies    []netip.Prefix // whose X-Forwarded-For counts
	Partitions        int            // of every journal
	MaxConns          int            // 16,384
	MaxConnsPerSource int            // 12,288
	HeaderBytes       int            // a larger request header is 431; 8 KiB
	BodyBudgetBytes   int64          // of all request bodies that are held in memory at a time; 96 MiB
	PasswordHashes    int            // that may run at a time, 19 MiB each; 2
	StopGrace         time.Duration  // running requests get so long at a stop; 10 s
	Drain             time.Duration  // connections get so long, of that, to be told with an answer that they end; 2 s
	AdmissionAge      time.Duration  // a write that took longer to arrive is admitted anew; 60 s
	IdleTimeout       time.Duration  // of a connection between requests; 75 s
	HeaderTimeout     time.Duration  // from a request's first byte to its header's end; 10 s
	BodyTimeout       time.Duration  // a body may take so long, and longer by what it has brought; 15 s
}

func (cfg *Config) setDefaults() {
	setDefault(&cfg.MaxConns, 16_384)
	setDefault(&cfg.MaxConnsPerSource, 12_288)
	setDefault(&cfg.HeaderBytes, 8<<10)
	setDefault(&cfg.BodyBudgetBytes, 96<<20)
	setDefault(&cfg.PasswordHashes, 2)
	setDefault(&cfg.StopGrace, 10*time.Second)
	setDefault(&cfg.Drain, 2*time.Second)
	setDefault(&cfg.AdmissionAge, defaultAdmissionAge)
	setDefault(&cfg.IdleTimeout, idleTimeout)
	setDefault(&cfg.HeaderTimeout, headerTimeout)
	setDefault(&cfg.BodyTimeout, bodyTimeout)
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
}

func setDefault[T comparable](v *T, to T) {
	if *v == *new(T) {
		*v = to
	}
}

// Deps is what the server works with. All are required but Metrics and Ops.
type Deps struct {
	Bus     *bus.Bus
	Blobs   blob.Store
	Secret  *apikey.Secret
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	Ops     fasthttp.RequestHandler // answers /livez, /readyz and /metrics; nil where they are elsewhere
}

// Server answers HTTP requests. Its fields but draining do not change once Serve runs.
type Server struct {
	cfg     Config
	bus     *bus.Bus
	blobs   blob.Store
	secret  *apikey.Secret
	log     *slog.Logger
	metrics *metrics
	app     *fiber.App
	http    *fasthttp.Server

	draining  atomic.Bool
	ctx       context.Context // of calls to other parts: ends after the running requests at a stop
	cancel    context.CancelFunc
	budget    *semaphore.Weighted // bytes of request bodies in memory
	hashing   *semaphore.Weighted // password hashes under way
	failures  *failureLog
	session   func(*fiber.Ctx) (event.AccountID, error) // see sessionAccount
	publicURL atomic.Pointer[string]
}

// New prepares a server; it does nothing before Serve.
func New(cfg Config, deps Deps) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, bus: deps.Bus, blobs: deps.Blobs, secret: deps.Secret, log: deps.Logger,
		metrics:  newMetrics(deps.Metrics),
		budget:   semaphore.NewWeighted(cfg.BodyBudgetBytes),
		hashing:  semaphore.NewWeighted(int64(cfg.PasswordHashes)),
		failures: newFailureLog(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.publicURL.Store(&s.cfg.PublicURL)
	s.app = fiber.New(fiber.Config{
		CaseSensitive: true, StrictRouting: true, DisableStartupMessage: true,
		ErrorHandler: s.onError, ReadBufferSize: cfg.HeaderBytes, WriteBufferSize: 4 << 10,
		ReduceMemoryUsage: true, DisablePreParseMultipartForm: true,
		Concurrency: cfg.MaxConns + refusing, // the listener refuses first, with an answer of ours
	})
	s.register()
	if deps.Ops != nil {
		s.registerOps(deps.Ops)
	}
	handle := s.app.Handler()
	s.http = s.app.Server()
	s.http.HeaderReceived = hideBody
	s.http.CloseOnShutdown = true
	s.http.NoDefaultContentType = true
	s.http.Handler = func(ctx *fasthttp.RequestCtx) { s.handle(ctx, handle) }
	return s
}

// Serve answers requests on ln until ctx ends. It then takes no more connections, and has each that it has end with
// its next answer: a connection that were closed while its client sends would leave that client not knowing. Those
// that are idle after Config.Drain are closed, running requests get Config.StopGrace. It is called once, and closes ln.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer s.cancel()
	if s.cfg.PublicURL == "" {
		url := "http://" + hostFor(ln.Addr())
		s.publicURL.Store(&url)
	}
	wrapped := newListener(ln, &s.cfg)
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
			s.log.Warn("requests were still running at the end of the grace period")
			err = nil
		}
		<-served //nolint:errcheck // the listener is closed, as was wanted
	}
	wrapped.waiting.Wait()
	return err
}

// hostFor is how a client on this machine reaches a listener.
func hostFor(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(t.Port))
	}
	return a.String()
}

// register makes every route.
func (s *Server) register() {
	s.registerDocuments()
	s.registerFiles()
	s.registerLists()
	s.registerAccounts()
	s.registerAdmin()
	s.registerPages()
	s.registerDocs()
}

func (s *Server) registerOps(ops fasthttp.RequestHandler) {
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		s.route(fiber.MethodGet, path, func(c *fiber.Ctx) error {
			ops(c.Context())
			return nil
		})
	}
}

// route registers a handler. A GET route answers HEAD too.
func (s *Server) route(method, path string, h fiber.Handler) {
	if method == fiber.MethodGet {
		s.app.Get(path, h)
		return
	}
	s.app.Add(method, path, h)
}

// handle is around every request: its id, its body, a panic, and the state of the connection after it.
func (s *Server) handle(ctx *fasthttp.RequestCtx, next fasthttp.RequestHandler) {
	c := ctx.Conn().(*conn)
	c.handled = true
	c.current = requestState{id: event.NewRequestID(), started: time.Now()}
	setRequestID(ctx, c.current.id)
	if s.draining.Load() {
		ctx.SetConnectionClose()
	}
	openBody(c, &ctx.Request.Header)
	s.run(ctx, next)
	if c.body != nil {
		c.body.finish(ctx)
		c.body = nil
	}
	if c.current.reserved > 0 {
		s.budget.Release(c.current.reserved)
	}
	s.metrics.observe(ctx.Response.StatusCode(), time.Since(c.current.started))
}

func (s *Server) run(ctx *fasthttp.RequestCtx, next fasthttp.RequestHandler) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("handler panicked", "request", requestIDOf(ctx).String(), "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			id := requestIDOf(ctx)
			ctx.Response.Reset()
			setRequestID(ctx, id)
			writeFailure(ctx, fault.New(fault.Internal, internalMessage))
		}
	}()
	if h := &ctx.Request.Header; h.IsHTTP11() && len(h.Host()) == 0 { // RFC 9112, 3.2
		writeFailure(ctx, fault.New(fault.Malformed, "The Host header is missing."))
		return
	}
	if !knownMethod(ctx.Method()) {
		ctx.Request.Header.SetMethod(fiber.MethodPatch) // which no route has: 404, or 405 with what is allowed
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

// now is the edge's clock.
func (s *Server) now() time.Time { return s.bus.Now() }

// PublicURL is where clients find the edge. It is final once Serve has begun.
func (s *Server) PublicURL() string { return *s.publicURL.Load() }

// url is an absolute address under the public one.
func (s *Server) url(path string) string { return *s.publicURL.Load() + path }

// connOf is the connection of a request.
func connOf(c *fiber.Ctx) *conn { return c.Context().Conn().(*conn) }

func requestIDOf(ctx *fasthttp.RequestCtx) event.RequestID { return ctx.Conn().(*conn).current.id }

// requestID is the id that the edge gave the request.
func requestID(c *fiber.Ctx) event.RequestID { return connOf(c).current.id }

func setRequestID(ctx *fasthttp.RequestCtx, id event.RequestID) {
	ctx.Response.Header.Set(fiber.HeaderXRequestID, id.String())
}
