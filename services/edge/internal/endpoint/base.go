// Package endpoint has the building blocks of endpoints: rows of the route table, calls that passed a row's checks, charges,
// answers and failures. The packages with endpoints import it; it imports none of them.
package endpoint

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	admins "quire.dev/pkg/admin"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
)

// Config configures admission and the addresses in answers.
type Config struct {
	PublicURL     string        // empty: SetPublicURL must be called before the first request
	UpgradeURL    string        // where clients get a larger plan; empty: the console's page about the plan
	ContentURL    string        // origin of links to raw content and downloads; empty: this one
	AdminTokens   admins.Tokens // accepted for admin calls
	UnmeteredRate int           // unmetered calls per second of an account or source; 0: no limit
	AccessLog     AccessLog
	In            httpin.Config // New sets NewRequestID, Fail, Answered and Logger
}

// Deps are the dependencies of every endpoint. All are required but Metrics and Traces.
type Deps struct {
	Bus     *bus.Bus
	Secret  *apikey.Secret
	Pages   *pages.Pages // for failures
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	Traces  *trace.Scope // nil: nothing is traced
}

// Base admits calls and answers them. Safe for concurrent use.
type Base struct {
	bus    *bus.Bus
	secret *apikey.Secret
	pages  *pages.Pages
	log    *slog.Logger
	http   *httpin.Server
	ctx    context.Context // for calls to other components: see httpin.Server.Context
	Limits

	admins    admins.Tokens
	metrics   *metrics
	access    *accessLog
	traces    *trace.Scope
	priceBook priceCache

	publicURL                         atomic.Pointer[string]
	upgrade, contentSite, contentHost string
}

// New returns the base of an edge's endpoints.
func New(cfg Config, deps Deps) *Base {
	s := &Base{
		bus: deps.Bus, secret: deps.Secret, pages: deps.Pages, log: deps.Logger, Limits: newLimits(deps.Secret.Network, cfg.UnmeteredRate),
		admins: cfg.AdminTokens, metrics: newMetrics(deps.Metrics), access: newAccessLog(cfg.AccessLog, deps.Metrics, deps.Logger), traces: deps.Traces,
		upgrade: cfg.UpgradeURL, contentSite: strings.TrimSuffix(cfg.ContentURL, "/"),
	}
	s.contentHost = hostOf(s.contentSite)
	s.SetPublicURL(strings.TrimSuffix(cfg.PublicURL, "/"))
	in := cfg.In
	in.Logger, in.Answered = deps.Logger, s.answered
	in.Fail, in.Failing = s.Fail, s.failing
	in.Single = SingleHeaders()
	in.NewRequestID = func() string { return event.NewRequestID().String() }
	s.http = httpin.New(in)
	s.ctx = s.http.Context()
	return s
}

// HTTP is the underlying server.
func (s *Base) HTTP() *httpin.Server { return s.http }

// SetPublicURL sets the public URL if Config.PublicURL is empty. Call it before Serve.
func (s *Base) SetPublicURL(url string) { s.publicURL.Store(&url) }

// Now is the time on the edge's clock.
func (s *Base) Now() time.Time { return s.bus.Now() }

// PublicURL is the address at which clients reach the edge. It does not change once Serve has begun.
func (s *Base) PublicURL() string { return *s.publicURL.Load() }

// URL returns the public address of a path.
func (s *Base) URL(path string) string { return *s.publicURL.Load() + path }
