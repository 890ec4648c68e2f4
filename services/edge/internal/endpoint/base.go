// Package endpoint is what endpoints are made of: their rows in the table of routes, the call that a row's checks have admitted, its
// charge, and its answer or failure. The packages of the endpoints build on it, and it knows none of them.
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
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/pages"
)

// Config says how calls are admitted, and which addresses answers name.
type Config struct {
	PublicURL     string        // empty: SetPublicURL is called before the first request
	UpgradeURL    string        // where a client gets a plan with more; <PublicURL>/console where empty
	ContentURL    string        // origin that raw content and downloads are linked at; empty: this one
	AdminTokens   admins.Tokens // that admit a call of an admin
	UnmeteredRate int           // calls a second of an account or source that no quota counts; 0: no limit
	In            httpin.Config // NewRequestID, Fail, Answered and Logger are set by New
}

// Deps are the parts that every endpoint stands on. All are required but Metrics.
type Deps struct {
	Bus     *bus.Bus
	Secret  *apikey.Secret
	Pages   *pages.Pages // of failures
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
}

// Base admits calls and answers them. It is safe for concurrent use.
type Base struct {
	bus    *bus.Bus
	secret *apikey.Secret
	pages  *pages.Pages
	log    *slog.Logger
	http   *httpin.Server
	ctx    context.Context // of calls to other parts: see httpin.Server.Context
	Limits

	admins    admins.Tokens
	metrics   *metrics
	priceBook priceCache

	publicURL                         atomic.Pointer[string]
	upgrade, contentSite, contentHost string
}

// New prepares the base of an edge's endpoints.
func New(cfg Config, deps Deps) *Base {
	s := &Base{
		bus: deps.Bus, secret: deps.Secret, pages: deps.Pages, log: deps.Logger, Limits: newLimits(deps.Secret.Network, cfg.UnmeteredRate),
		admins: cfg.AdminTokens, metrics: newMetrics(deps.Metrics),
		upgrade: cfg.UpgradeURL, contentSite: strings.TrimSuffix(cfg.ContentURL, "/"),
	}
	s.contentHost = hostOf(s.contentSite)
	s.SetPublicURL(strings.TrimSuffix(cfg.PublicURL, "/"))
	in := cfg.In
	in.Logger, in.Answered = deps.Logger, s.metrics.observe
	in.Fail, in.Failing = s.Fail, s.failing
	in.Single = SingleHeaders()
	in.NewRequestID = func() string { return event.NewRequestID().String() }
	s.http = httpin.New(in)
	s.ctx = s.http.Context()
	return s
}

// HTTP is the server that the calls come from.
func (s *Base) HTTP() *httpin.Server { return s.http }

// SetPublicURL is for use before Serve, where Config.PublicURL is empty.
func (s *Base) SetPublicURL(url string) { s.publicURL.Store(&url) }

// Now is the edge's clock.
func (s *Base) Now() time.Time { return s.bus.Now() }

// PublicURL is where clients find the edge. It is final once Serve has begun.
func (s *Base) PublicURL() string { return *s.publicURL.Load() }

// URL is an absolute address under the public one.
func (s *Base) URL(path string) string { return *s.publicURL.Load() + path }
