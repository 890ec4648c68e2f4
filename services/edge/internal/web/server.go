// Package web joins the endpoints of the edge in one table (routes.go) and serves them. Package httpin takes the requests,
// package bus asks billing and the document services, package pages renders the pages.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"

	"github.com/valyala/fasthttp"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/admin"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/console/handlers"
	"quire.dev/services/edge/internal/contents"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/export"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
	"quire.dev/services/edge/internal/prices"
	"quire.dev/services/edge/internal/proofs"
	"quire.dev/services/edge/internal/purchases"
	"quire.dev/services/edge/internal/readers"
	"quire.dev/services/edge/internal/render"
)

// Config configures a Server. New fills in defaults.
type Config struct {
	endpoint.Config
	Developer      developer.Config // New sets Partitions and PasswordHashes
	AdminOnly      bool             // serve only admin paths
	Partitions     int              // of every journal
	Render         render.Config    // for user texts
	Operator       console.Operator
	Purchases      purchases.Config
	PasswordHashes int // concurrent hashes of each kind, 19 MiB each; 2
}

func (cfg *Config) setDefaults() {
	cfg.PasswordHashes = cmp.Or(cfg.PasswordHashes, 2)
	cfg.Developer.Partitions, cfg.Developer.PasswordHashes = cfg.Partitions, cfg.PasswordHashes
}

// Deps are the dependencies of a Server. All are required but Metrics, Health and Ops.
type Deps struct {
	Bus     *bus.Bus
	Blobs   blob.Store
	Secret  *apikey.Secret
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	Traces  *trace.Scope            // nil: nothing is traced
	Health  *telemetry.Health       // for the landing page; nil: judged by whether billing answers
	Ops     fasthttp.RequestHandler // serves /livez, /readyz and /metrics; nil: they have their own listener
}

// Server answers HTTP requests. Its fields do not change once Serve runs.
type Server struct {
	*endpoint.Base
	cfg        Config
	bus        *bus.Bus
	developer  *developer.API
	handlers   *handlers.Handlers
	adminPages *handlers.Admins
	readers    *readers.Readers
	exports    *export.Exports
	prices     *prices.Prices
	admin      *admin.Admin
	accounts   *accounts.Accounts
	purchases  *purchases.Purchases
	proofs     *proofs.Proofs
	http       *httpin.Server
	ops        fasthttp.RequestHandler
	ctx        context.Context // of calls to other parts: see httpin.Server.Context

	pages  *pages.Pages
	render *render.Renderer
	docs   func() (*documentation, error) // built on first use
}

// New returns a server that does nothing before Serve.
func New(cfg Config, deps Deps) *Server {
	cfg.setDefaults()
	shown := pages.New()
	base := endpoint.New(cfg.Config, endpoint.Deps{Bus: deps.Bus, Secret: deps.Secret, Pages: shown, Logger: deps.Logger, Metrics: deps.Metrics, Traces: deps.Traces})
	if !cfg.AdminOnly {
		shown.ShowVisitors(base.Visitor)
	}
	s := &Server{
		Base: base, cfg: cfg, bus: deps.Bus, ops: deps.Ops,
		http: base.HTTP(), ctx: base.HTTP().Context(),
		pages:  shown,
		render: render.New(cfg.Render),
	}
	texts := contents.New(s.ctx, deps.Blobs, cfg.Partitions, deps.Logger)
	s.accounts = accounts.New(base, accounts.Config{Partitions: cfg.Partitions, PasswordHashes: cfg.PasswordHashes}, accounts.Deps{Bus: deps.Bus, Secret: deps.Secret, Logger: deps.Logger})
	s.developer = developer.New(base, cfg.Developer, developer.Deps{
		Bus: deps.Bus, Blobs: deps.Blobs, Contents: texts, Secret: deps.Secret, Render: s.render,
	})
	s.exports = export.New(base, export.Deps{
		Bus: deps.Bus, Blobs: deps.Blobs, Contents: texts, Logger: deps.Logger, Accounts: s.accounts, Developer: s.developer,
	})
	s.prices = prices.New(base)
	s.proofs = proofs.New(base, deps.Blobs, cfg.Partitions)
	s.purchases = purchases.New(base, cfg.Purchases, purchases.Deps{Bus: deps.Bus, Accounts: s.accounts, Logger: deps.Logger, Metrics: deps.Metrics})
	s.accounts.BeforeDeletion(s.purchases.EndWithPeriod)
	s.admin = admin.New(base, admin.Deps{Bus: deps.Bus, Secret: deps.Secret, Accounts: s.accounts})
	checks := ""
	if deps.Ops != nil {
		checks = "/readyz"
	}
	s.readers = readers.New(base, readers.Deps{
		Bus: deps.Bus, Contents: texts, Developer: s.developer, Pages: shown, Render: s.render, Health: deps.Health, Checks: checks,
	})
	consolePages := console.New(shown)
	s.handlers = handlers.New(base, handlers.Deps{
		Bus: deps.Bus, Console: consolePages, Accounts: s.accounts, Developer: s.developer, Purchases: s.purchases, Exports: s.exports, Readers: s.readers, UpgradeURL: cfg.UpgradeURL, Operator: cfg.Operator,
	})
	s.readers.ShowOwn(s.handlers.OwnPart)
	s.adminPages = handlers.NewAdmins(base, handlers.AdminDeps{
		Bus: deps.Bus, Secret: deps.Secret, Console: consolePages, Pages: shown, Accounts: s.accounts, Admin: s.admin,
		Tokens: cfg.AdminTokens, Alone: cfg.AdminOnly,
	})
	s.docs = sync.OnceValues(s.newDocumentation)
	s.register()
	return s
}

// Serve answers requests on ln until ctx ends: see httpin.Server.Serve.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	defer s.render.Close()
	if s.PublicURL() == "" {
		s.SetPublicURL(URLOf(ln.Addr()))
	}
	notifying, stop := context.WithCancel(ctx)
	logging, stopLogging := context.WithCancel(context.WithoutCancel(ctx)) // also the requests that run at the stop
	var background sync.WaitGroup
	defer background.Wait()
	defer stopLogging()
	defer stop()
	background.Go(func() { s.WriteAccessLog(logging) })
	if s.cfg.AdminOnly {
		return s.http.Serve(ctx, ln) // no views or creations to limit: the bus sends other edges' counts to the API's server
	}
	s.bus.OnSources(s.MergeCounts)
	background.Go(func() { s.NotifyEdges(notifying) })
	background.Go(func() { s.exports.MakeExports(notifying) })
	background.Go(func() { s.purchases.Work(notifying) })
	return s.http.Serve(ctx, ln)
}

// URLOf is the URL of a listener for clients on this machine.
func URLOf(a net.Addr) string { return "http://" + hostFor(a) }

// hostFor is the host and port of a listener for clients on this machine.
func hostFor(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(t.Port))
	}
	return a.String()
}
