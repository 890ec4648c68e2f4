// Package web is the endpoints of the edge: the table of them (routes.go), authentication, validation and answers.
// Package httpin takes the requests, package bus asks billing and the document services, package pages renders the pages.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sync/semaphore"

	admins "quire.dev/pkg/admin"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/render"
)

// Config says how the edge speaks HTTP. New fills in defaults.
type Config struct {
	PublicURL      string        // "http://<listener>" where empty
	UpgradeURL     string        // where a client gets a plan with more; <PublicURL>/console where empty
	ContentURL     string        // origin that raw content and downloads are linked at; empty: this one
	AdminTokens    admins.Tokens // none: the admin paths do not exist
	AdminOnly      bool          // no other paths exist
	Partitions     int           // of every journal
	Render         render.Config // of texts that strangers wrote
	UnmeteredRate  int           // calls a second of an account or source that no quota counts; 0: no limit
	PasswordHashes int           // of each kind that may run at a time, 19 MiB each; 2
	AdmissionAge   time.Duration // a write that took longer to arrive is admitted anew; 60 s
	In             httpin.Config // NewRequestID, Fail, Answered and Logger are set by New
}

func (cfg *Config) setDefaults() {
	cfg.PasswordHashes = cmp.Or(cfg.PasswordHashes, 2)
	cfg.AdmissionAge = cmp.Or(cfg.AdmissionAge, defaultAdmissionAge)
	cfg.PublicURL = strings.TrimSuffix(cfg.PublicURL, "/")
	cfg.ContentURL = strings.TrimSuffix(cfg.ContentURL, "/")
}

// Deps are the parts that the server works with. All are required but Metrics, Health and Ops.
type Deps struct {
	Bus     *bus.Bus
	Blobs   blob.Store
	Secret  *apikey.Secret
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	Health  *telemetry.Health       // that the landing page shows; nil: what billing answers is all
	Ops     fasthttp.RequestHandler // answers /livez, /readyz and /metrics; nil where they are elsewhere
}

// Server answers HTTP requests. Its fields do not change once Serve runs.
type Server struct {
	cfg       Config
	bus       *bus.Bus
	blobs     blob.Store
	whole     *wholeBlobs
	putBytes  int64 // of a file that blobs holds in memory while it is put
	secret    *apikey.Secret
	log       *slog.Logger
	http      *httpin.Server
	ops       fasthttp.RequestHandler
	ctx       context.Context     // of calls to other parts: see httpin.Server.Context
	rendering *semaphore.Weighted // bytes of texts that pages are made of: see renderBudget
	limits
	listeners *listeners // that wait for events of their account

	signInHashes, registrationHashes, documentHashes *hasher

	metrics       *metrics
	pages         *pages.Pages
	render        *render.Renderer
	forgetful     *render.Renderer // render, without its cache
	console       *console.Console
	pageListeners *listeners
	docs          func() (*documentation, error) // made when first asked for
	health        *telemetry.Health
	priceBook     priceCache
	publicURL     atomic.Pointer[string]

	contentHost string // of Config.ContentURL
}

// New prepares a server; it does nothing before Serve.
func New(cfg Config, deps Deps) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, bus: deps.Bus, blobs: deps.Blobs, secret: deps.Secret, log: deps.Logger, ops: deps.Ops, health: deps.Health,
		rendering: semaphore.NewWeighted(renderBudget),
		limits:    newLimits(deps.Secret.Network, cfg.UnmeteredRate),

		signInHashes: newHasher(cfg.PasswordHashes), registrationHashes: newHasher(cfg.PasswordHashes), documentHashes: newHasher(cfg.PasswordHashes),

		metrics: newMetrics(deps.Metrics),
		pages:   pages.New(),
		render:  render.New(cfg.Render),
		whole:   newWholeBlobs(deps.Blobs),
	}
	if b, ok := deps.Blobs.(blob.Buffering); ok {
		s.putBytes = b.PutBytes()
	}
	s.forgetful = s.render.Uncached()
	s.console = console.New(s.pages)
	s.listeners, s.pageListeners = newListeners(maxListeners, math.MaxInt), newListeners(listenersOfAccount, listenersOfEdge)
	s.publicURL.Store(&s.cfg.PublicURL)
	s.contentHost = hostOf(s.cfg.ContentURL)
	s.docs = sync.OnceValues(s.newDocumentation)
	in := cfg.In
	in.Logger, in.Answered = deps.Logger, s.metrics.observe
	in.Fail, in.Failing = s.fail, s.failing
	in.Single = singleHeaders()
	in.NewRequestID = func() string { return event.NewRequestID().String() }
	s.http = httpin.New(in)
	s.ctx = s.http.Context()
	s.register()
	return s
}

// Serve answers requests on ln until ctx ends: see httpin.Server.Serve.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer s.render.Close()
	if s.PublicURL() == "" {
		s.SetPublicURL(URLOf(ln.Addr()))
	}
	if s.cfg.AdminOnly {
		return s.http.Serve(ctx, ln) // it limits no views and no creations: the bus tells the server of the API what it hears
	}
	s.bus.HearSources(s.mergeCounts)
	notifying, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	background.Go(func() { s.notifyEdges(notifying) })
	background.Go(func() { s.makeExports(notifying) })
	return s.http.Serve(ctx, ln)
}

// SetPublicURL is for use before Serve, where Config.PublicURL is empty.
func (s *Server) SetPublicURL(url string) { s.publicURL.Store(&url) }

// URLOf is how a client on this machine reaches a listener.
func URLOf(a net.Addr) string { return "http://" + hostFor(a) }

// hostFor is how a client on this machine reaches a listener.
func hostFor(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(t.Port))
	}
	return a.String()
}

// now is the edge's clock.
func (s *Server) now() time.Time { return s.bus.Now() }

// PublicURL is where clients find the edge. It is final once Serve has begun.
func (s *Server) PublicURL() string { return *s.publicURL.Load() }

// url is an absolute address under the public one.
func (s *Server) url(path string) string { return *s.publicURL.Load() + path }
