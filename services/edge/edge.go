// Package edge is the service that clients talk to. It authenticates and validates requests, has billing admit them,
// asks the document services, and answers. It keeps no state that matters, so that any number of edges run side by side.
package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"
	"golang.org/x/sync/errgroup"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/host"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/purchases"
	"quire.dev/services/edge/internal/render"
	"quire.dev/services/edge/internal/web"
)

// Config says how an edge runs. Listen, Secret and Partitions must be set.
type Config struct {
	Listen         string         // host:port; port 0 is any free one
	PublicURL      string         // empty: http://<listener>
	UpgradeURL     string         // where clients get a larger plan; empty: the console's page about the plan
	Secret         []byte         // master secret of keys, tokens, sessions and links; the same for every edge
	AlsoSecrets    [][]byte       // other master secrets whose keys, tokens, sessions and links are accepted
	ContentURL     string         // origin on another host that serves raw content and downloads only; empty: PublicURL
	AdminToken     string         // as admin.ParseTokens reads it; empty: the admin paths do not exist
	AdminListen    string         // host:port that serves the admin paths and nothing else; empty: Listen
	TrustedProxies []netip.Prefix // peers whose X-Forwarded-For is trusted
	Partitions     int            // of every journal
	AskPartitions  bool           // Run compares Partitions with billing's before it serves; a mismatch is an error
	ClockOffset    time.Duration  // QUIRE_CLOCK_OFFSET; 0 outside development

	Operator           console.Operator
	Contact            string        // where account holders ask about payments; empty: not known
	CheckoutSuccessURL string        // page after a payment; empty: the console's
	Stripe             stripe.Config // without a Key, payments are not taken online; New sets Installation

	MaxConns          int           // 16,384
	MaxConnsPerSource int           // 12,288
	RenderBytes       int64         // memory limit of all rendering processes together; 64 MiB
	StopGrace         time.Duration // for running requests at shutdown; 10 s
	AdmissionAge      time.Duration // a write that took longer to arrive is admitted again; 60 s
	UnmeteredRate     int           // unmetered calls per second of an account or source; 0: no limit
	AccessLogSlow     time.Duration // requests that took at least as long are in the access log; 0: none for their time
	AccessLogSample   float64       // share of the other requests that are in the access log, 0 to 1
}

// Configure maps settings to a Config. Settings that the program does not read are zero and keep the default.
func Configure(s host.Settings) Config {
	return Config{
		Listen: s.Listen, PublicURL: s.PublicURL, UpgradeURL: s.UpgradeURL, ContentURL: s.ContentURL,
		Secret: []byte(s.Secret.Reveal()), AlsoSecrets: s.SecretPrevious.Bytes(), AdminToken: s.AdminToken.Reveal(), AdminListen: s.AdminListen,
		TrustedProxies: s.TrustedProxies, Partitions: s.Partitions, AskPartitions: true, ClockOffset: s.ClockOffset,
		MaxConns: s.MaxConns, MaxConnsPerSource: s.MaxConnsPerSource, RenderBytes: s.RenderBytes, StopGrace: s.StopGrace,
		UnmeteredRate: s.UnmeteredRate, AccessLogSlow: s.AccessLogSlow, AccessLogSample: s.AccessLogSample, Operator: console.Operator{Name: s.Operator, Address: s.OperatorAt},
		Contact: s.Contact, CheckoutSuccessURL: s.CheckoutSuccessURL,
		Stripe: stripe.Config{Key: s.StripeKey, WebhookSecret: s.StripeWebhookSecret, AutomaticTax: s.StripeTax, URL: s.StripeURL},
	}
}

// Validate reports everything that is wrong with the configuration.
func (c *Config) Validate() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		errs = append(errs, fmt.Errorf("listen: %w", err))
	}
	if _, _, err := net.SplitHostPort(c.AdminListen); c.AdminListen != "" && err != nil {
		errs = append(errs, fmt.Errorf("listen for admins: %w", err))
	}
	if _, err := apikey.NewSecret(c.Secret, c.AlsoSecrets...); err != nil {
		errs = append(errs, err)
	}
	if c.Partitions < 1 {
		errs = append(errs, fmt.Errorf("%d partitions", c.Partitions))
	}
	if err := c.checkStripe(); err != nil {
		errs = append(errs, err)
	}
	if err := checkContentURL(c.ContentURL, c.PublicURL); err != nil {
		errs = append(errs, err)
	}
	if c.MaxConns < 0 || c.MaxConnsPerSource < 0 || c.RenderBytes < 0 || c.StopGrace < 0 || c.AdmissionAge < 0 || c.UnmeteredRate < 0 || c.AccessLogSlow < 0 || c.AccessLogSample < 0 {
		errs = append(errs, errors.New("a limit is negative"))
	}
	return errors.Join(errs...)
}

// online reports whether payments are taken online.
func (c *Config) online() bool { return c.Stripe.Key != "" || c.Stripe.WebhookSecret != "" }

func (c *Config) checkStripe() error {
	if !c.online() {
		return nil
	}
	if _, err := c.connectStripe("x"); err != nil {
		return fmt.Errorf("payments: %w", err)
	}
	return nil
}

// connectStripe is purchases.Connect for Stripe.
func (c *Config) connectStripe(installation string) (payments.Provider, error) {
	settings := c.Stripe
	settings.Installation = installation
	return stripe.New(settings)
}

// purchases is what is sold, and how.
func (c *Config) purchases() purchases.Config {
	sold := purchases.Config{Contact: c.Contact, SuccessURL: c.CheckoutSuccessURL}
	if c.online() {
		sold.Connect = c.connectStripe
	}
	return sold
}

// checkContentURL requires another host, not only another port: browsers send cookies to all ports of a host.
func checkContentURL(content, public string) error {
	if content == "" {
		return nil
	}
	u, err := url.Parse(content)
	switch {
	case err != nil || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("the content URL must be an origin, such as https://content.example")
	case public == "":
		return errors.New("the content URL needs a public URL beside it")
	}
	if p, err := url.Parse(public); err == nil && strings.EqualFold(p.Hostname(), u.Hostname()) {
		return errors.New("the content URL must have another host than the public URL")
	}
	return nil
}

// Deps are the dependencies of an edge. The caller closes them. Metrics, Health, Logger and Ops may be nil.
type Deps struct {
	NC      *nats.Conn
	Shared  inprocess.Shared // with services of the same process
	Blobs   blob.Store
	Logger  *slog.Logger
	Metrics *telemetry.Metrics
	Traces  *trace.Scope // nil: nothing is traced
	Health  *telemetry.Health
	// AccessLog receives the access log, one line per Write. nil: it is not written.
	AccessLog io.Writer
	Ops       http.Handler // serves /livez, /readyz and /metrics beside the API
	// RenderCommand starts a process that calls Render; see RenderCommand. Empty: texts are rendered in this process, where a
	// library that hangs can't be stopped.
	RenderCommand []string
}

// Service is one edge.
type Service struct {
	cfg   Config
	deps  Deps
	bus   *bus.Bus
	web   *web.Server
	admin *web.Server // nil: web serves any admin paths
	ready chan struct{}
	addr  string // set before ready is closed

	adminURL string // set before ready is closed
}

// New prepares an edge. Nothing is contacted before Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("edge configuration: %w", err)
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	secret, err := apikey.NewSecret(cfg.Secret, cfg.AlsoSecrets...)
	if err != nil {
		return nil, err
	}
	admins, err := admin.ParseTokens(cfg.AdminToken)
	if err != nil {
		return nil, fmt.Errorf("edge configuration: admin token: %w", err)
	}
	b, err := bus.New(deps.NC, bus.Config{
		Partitions: cfg.Partitions, Offset: cfg.ClockOffset, Shared: deps.Shared, Logger: deps.Logger, Metrics: deps.Metrics, Traces: deps.Traces,
	})
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps, bus: b, ready: make(chan struct{})}
	var ops fasthttp.RequestHandler
	if deps.Ops != nil {
		ops = fasthttpadaptor.NewFastHTTPHandler(deps.Ops)
	}
	serving := web.Config{
		Config: endpoint.Config{
			PublicURL: cfg.PublicURL, UpgradeURL: cfg.UpgradeURL, ContentURL: cfg.ContentURL, AdminTokens: admins, UnmeteredRate: cfg.UnmeteredRate,
			AccessLog: endpoint.AccessLog{To: deps.AccessLog, Slow: cfg.AccessLogSlow, Sample: cfg.AccessLogSample},
			In: httpin.Config{
				TrustedProxies: cfg.TrustedProxies, MaxConns: cfg.MaxConns, MaxConnsPerSource: cfg.MaxConnsPerSource, StopGrace: cfg.StopGrace,
			},
		},
		Developer:  developer.Config{AdmissionAge: cfg.AdmissionAge},
		Partitions: cfg.Partitions, Operator: cfg.Operator, Purchases: cfg.purchases(),
		Render: render.Config{Command: deps.RenderCommand, Bytes: cfg.RenderBytes, Logger: deps.Logger},
	}
	parts := web.Deps{Bus: b, Blobs: deps.Blobs, Secret: secret, Logger: deps.Logger, Metrics: deps.Metrics, Traces: deps.Traces, Health: deps.Health, Ops: ops}
	if cfg.AdminListen != "" && len(admins) > 0 {
		apart := serving
		apart.AdminOnly = true
		s.admin = web.New(apart, parts)
		serving.AdminTokens = nil
	}
	s.web = web.New(serving, parts)
	return s, nil
}

// Unready is the reason for operators why the edge can carry out no metered request, or nil.
func (s *Service) Unready() error { return s.bus.Unready() }

// Ready is closed once the edge answers requests.
func (s *Service) Ready() <-chan struct{} { return s.ready }

// Addr is the address the edge listens on, host:port. Valid after Ready.
func (s *Service) Addr() string { return s.addr }

// URL is the public URL. Valid after Ready.
func (s *Service) URL() string { return s.web.PublicURL() }

// AdminURL is the address of the admin paths on this machine. Valid after Ready.
func (s *Service) AdminURL() string { return s.adminURL }

// Run serves requests until ctx ends. Then it stops accepting, finishes running requests, has the bus store the pending
// settlements, and returns. It must be called only once.
func (s *Service) Run(ctx context.Context) error {
	health := s.deps.Health.Register("edge")
	defer health.Remove()
	l, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("edge: %w", err)
	}
	defer l.close()

	// The bus outlives ctx: requests that still run need it.
	busCtx, stopBus := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBus()
	busDone := make(chan error, 1)
	go func() { busDone <- s.bus.Run(busCtx) }()
	select {
	case <-s.bus.Ready():
	case err := <-busDone:
		return fmt.Errorf("edge: bus: %w", err)
	case <-ctx.Done():
		stopBus()
		return <-busDone
	}
	if s.cfg.AskPartitions {
		if err := s.checkBilling(ctx); err != nil {
			stopBus()
			if ctx.Err() != nil {
				return <-busDone
			}
			return fmt.Errorf("edge: %w", errors.Join(err, <-busDone))
		}
	}
	return s.serve(ctx, l, health, stopBus, busDone)
}

// listeners serve the API and, if they have their own address, the admin paths.
type listeners struct{ api, admin net.Listener }

func (s *Service) listen(ctx context.Context) (l listeners, err error) {
	if l.api, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
		return l, err
	}
	if s.admin != nil {
		if l.admin, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.AdminListen); err != nil {
			l.close()
			return l, fmt.Errorf("listen for admins: %w", err)
		}
	}
	return l, nil
}

func (l listeners) close() {
	_ = l.api.Close()
	if l.admin != nil {
		_ = l.admin.Close()
	}
}

// answer serves until ctx ends or a listener fails.
func (s *Service) answer(ctx context.Context, l listeners) error {
	if s.admin == nil {
		return s.web.Serve(ctx, l.api)
	}
	group, work := errgroup.WithContext(ctx)
	group.Go(func() error { return s.web.Serve(work, l.api) })
	group.Go(func() error { return s.admin.Serve(work, l.admin) })
	return group.Wait()
}

// checkBilling asks billing whether this edge matches its number of partitions and its blob store.
func (s *Service) checkBilling(ctx context.Context) error {
	id, err := s.bus.CheckPartitions(ctx)
	if err != nil || id == "" {
		return err
	}
	billing := installation.Place{Name: "billing", Owner: func(context.Context) (string, error) { return id, nil }}
	_, err = installation.Await(ctx, s.deps.Logger, billing, installation.Blobs(s.deps.Blobs, false))
	return err
}

// serve answers requests until ctx or the bus ends, and then stops the bus.
func (s *Service) serve(ctx context.Context, l listeners, health *telemetry.Check, stopBus func(), busDone <-chan error) error {
	webCtx, stopWeb := context.WithCancel(ctx)
	defer stopWeb()
	webDone := make(chan error, 1)
	s.addr, s.adminURL = l.api.Addr().String(), web.URLOf(l.api.Addr())
	s.deps.Logger.Info("edge listens", "address", s.addr)
	if s.admin != nil {
		if s.cfg.PublicURL == "" {
			s.admin.SetPublicURL(s.adminURL) // links in errors lead to the documentation there
		}
		s.adminURL = web.URLOf(l.admin.Addr())
		s.deps.Logger.Info("edge listens for admins", "address", l.admin.Addr().String())
	}
	go func() { webDone <- s.answer(webCtx, l) }()
	health.Ready()
	close(s.ready)

	var webErr, busErr error
	select {
	case webErr = <-webDone:
		stopBus()
		busErr = <-busDone
	case busErr = <-busDone:
		if busErr == nil {
			busErr = errors.New("it ended by itself")
		}
		health.Fail("the bus ended")
		stopWeb()
		webErr = <-webDone
	}
	if busErr != nil {
		busErr = fmt.Errorf("edge: bus: %w", busErr)
	}
	return errors.Join(webErr, busErr)
}
