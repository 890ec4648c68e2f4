// Package web is the edge's HTTP: the table of all endpoints (routes.go), which are other packages' but for the assets, the documentation
// and the probes, and the server that answers them.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	admins "quire.dev/pkg/admin"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/telemetry"
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
	"quire.dev/services/edge/internal/readers"
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
	*endpoint.Base
	cfg        Config
	bus        *bus.Bus
	developer  *developer.API
	handlers   *handlers.Handlers
	adminPages *handlers.Admins
	readers    *readers.Readers
	exports    *export.Exports
	admin      *admin.Admin
	accounts   *accounts.Accounts
	http       *httpin.Server
	ops        fasthttp.RequestHandler
	ctx        context.Context // of calls to other parts: see httpin.Server.Context

	pages  *pages.Pages
	render *render.Renderer
	docs   func() (*documentation, error) // made when first asked for
}

// New prepares a server; it does nothing before Serve.
func New(cfg Config, deps Deps) *Server {
	cfg.setDefaults()
	shown := pages.New()
	base := endpoint.New(endpoint.Config{
		PublicURL: cfg.PublicURL, UpgradeURL: cfg.UpgradeURL, ContentURL: cfg.ContentURL, AdminTokens: cfg.AdminTokens,
		UnmeteredRate: cfg.UnmeteredRate, In: cfg.In,
	}, endpoint.Deps{Bus: deps.Bus, Secret: deps.Secret, Pages: shown, Logger: deps.Logger, Metrics: deps.Metrics})
	s := &Server{
		Base: base, cfg: cfg, bus: deps.Bus, ops: deps.Ops,
		http: base.HTTP(), ctx: base.HTTP().Context(),
		pages:  shown,
		render: render.New(cfg.Render),
	}
	texts := contents.New(s.ctx, deps.Blobs, cfg.Partitions, deps.Logger)
	s.accounts = accounts.New(base, accounts.Config{Partitions: cfg.Partitions, PasswordHashes: cfg.PasswordHashes}, accounts.Deps{Bus: deps.Bus, Secret: deps.Secret, Logger: deps.Logger})
	s.developer = developer.New(base, developer.Config{
		Partitions: cfg.Partitions, PasswordHashes: cfg.PasswordHashes, AdmissionAge: cfg.AdmissionAge,
	}, developer.Deps{Bus: deps.Bus, Blobs: deps.Blobs, Contents: texts, Secret: deps.Secret, Render: s.render})
	s.exports = export.New(base, export.Deps{
		Bus: deps.Bus, Blobs: deps.Blobs, Contents: texts, Secret: deps.Secret, Logger: deps.Logger, Accounts: s.accounts, Developer: s.developer,
	})
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
		Bus: deps.Bus, Console: consolePages, Accounts: s.accounts, Developer: s.developer, Exports: s.exports, Readers: s.readers, UpgradeURL: cfg.UpgradeURL,
	})
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
	if s.cfg.AdminOnly {
		return s.http.Serve(ctx, ln) // it limits no views and no creations: the bus tells the server of the API what it hears
	}
	s.bus.HearSources(s.MergeCounts)
	notifying, stop := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	background.Go(func() { s.NotifyEdges(notifying) })
	background.Go(func() { s.exports.MakeExports(notifying) })
	return s.http.Serve(ctx, ln)
}

// URLOf is how a client on this machine reaches a listener.
func URLOf(a net.Addr) string { return "http://" + hostFor(a) }

// hostFor is how a client on this machine reaches a listener.
func hostFor(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok && t.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(t.Port))
	}
	return a.String()
}
