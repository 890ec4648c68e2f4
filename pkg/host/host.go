// Package host runs services as a process: settings, connections to the stores, the operators' listener, health, membership,
// and an orderly start and stop. The services' binaries use Main; the process that holds all services embeds its stores and
// uses New.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/members"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/trace"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/mongo"
	"quire.dev/pkg/views/postgres"
	"quire.dev/pkg/wait"
)

// Process is a process and its parts. One goroutine sets it up and calls Run once.
type Process struct {
	Settings
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	Health  *telemetry.Health
	Traces  *trace.Recorder // set by OpenTraces; nil: nothing is traced
	// Grace bounds the stop of each part. A part that takes longer is abandoned with an error.
	Grace time.Duration

	// AsOwner makes OpenViews act as the owner of a schema of PostgreSQL: see postgres.Config.
	AsOwner bool

	// Set by Main only.
	Program Program
	NC      *nats.Conn
	Blobs   blob.Store

	group   *lifecycle.Group
	closers []func() error
}

// New returns a process without services.
func New(settings Settings, log *slog.Logger) *Process {
	return &Process{
		Settings: settings, Log: log, Metrics: telemetry.NewMetrics(), Health: telemetry.NewHealth(),
		Grace: lifecycle.DefaultGrace, group: lifecycle.New(log),
	}
}

// Logger returns the program's logger.
func (s Settings) Logger(program Program, w io.Writer) *slog.Logger {
	return telemetry.NewLogger(w, telemetry.LogConfig{Service: program.String(), Level: s.LogLevel, Text: s.LogFormat == "text"})
}

// Main is the main function of a service's binary; its result is the exit status. It reads the settings and connects to the
// journal server and the bucket, calls wire to add the service, and runs until a signal.
func Main(program Program, wire func(context.Context, *Process) error) int {
	return lifecycle.Main(func(ctx context.Context) error { return run(ctx, program, wire) })
}

func run(ctx context.Context, program Program, wire func(context.Context, *Process) error) error {
	settings, err := ReadSettings(program, os.Environ())
	if err != nil {
		return err
	}
	p := New(settings, settings.Logger(program, os.Stderr))
	p.Program = program
	if err := p.OpenTraces(ctx, "quire-"+program.String()); err != nil {
		return err
	}
	return p.RunAfter(ctx, func(ctx context.Context) error {
		if err := p.connect(ctx); err != nil {
			return err
		}
		return wire(ctx, p)
	})
}

// connect connects to the journal server, which may start later, and to the bucket.
func (p *Process) connect(ctx context.Context) (err error) {
	if p.NC, err = rpc.Connect(p.NATSURL, p.Program.String(), p.Log); err != nil {
		return err
	}
	p.OnClose(func() error { p.NC.Close(); return nil })
	p.Blobs, err = p.OpenBucket(ctx)
	return err
}

// OpenTraces begins to record traces, if there is a collector, and ends that with the process. service names the process.
func (p *Process) OpenTraces(ctx context.Context, service string) error {
	headers, err := traceHeaders(p.TraceHeaders.Reveal())
	if err != nil {
		return err
	}
	p.Traces, err = trace.New(ctx, trace.Config{
		Endpoint: p.TraceEndpoint, Headers: headers, Service: service, Share: p.TraceShare, PerSecond: p.TraceRate, Logger: p.Log, Metrics: p.Metrics,
	})
	p.OnClose(p.Traces.Close)
	return err
}

// traceHeaders parses name=value,other=value, with values percent-encoded.
func traceHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for field := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		name, value, found := strings.Cut(field, "=")
		decoded, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil {
			return nil, errors.New("a header is not name=value")
		}
		headers[name] = decoded
	}
	return headers, nil
}

// OpenBucket opens the bucket of blobs. It waits for an unresponsive server.
func (p *Process) OpenBucket(ctx context.Context) (store blob.Store, err error) {
	err = p.await(ctx, "bucket", func(ctx context.Context) (err error) {
		store, err = s3.Open(ctx, s3.Config{URL: p.S3URL})
		return err
	})
	return store, err
}

// OpenViews opens a service's read model in PostgreSQL or MongoDB, and closes it with the process. It waits for an unresponsive
// server.
func (p *Process) OpenViews(ctx context.Context, service string, collections []views.Collection) (views.Store, error) {
	var store interface {
		views.Store
		lifecycle.Component // forgets old deletions
	}
	name := "read model of " + service
	err := p.await(ctx, name, func(ctx context.Context) (err error) {
		if p.PostgresURL != "" {
			store, err = postgres.Open(ctx, postgres.Config{URL: p.PostgresURL, Schema: p.schemaOf(service), Collections: collections, AsOwner: p.AsOwner, Logger: p.Log})
		} else {
			store, err = mongo.Open(ctx, mongo.Config{URI: p.MongoURL, Database: p.MongoDatabase, Collections: collections, Logger: p.Log})
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.OnClose(store.Close)
	p.Add(name, store)
	return store, nil
}

// OpenSnapshot opens the read model of a service in PostgreSQL as of now, only to read it.
func OpenSnapshot(ctx context.Context, s Settings, service string, collections []views.Collection) (views.Snapshot, error) {
	return postgres.OpenSnapshot(ctx, postgres.Config{URL: s.PostgresURL, Schema: s.schemaOf(service), Collections: collections})
}

// schemaOf is the PostgreSQL schema of a service.
func (s Settings) schemaOf(service string) string { return cmp.Or(s.PostgresSchema, "quire_"+service) }

// Bounds of the pauses between attempts to open a store, and of one attempt, which may have to create an index on a large
// collection.
const (
	initialPause   = 100 * time.Millisecond
	maxPause       = 5 * time.Second
	initialTimeout = 10 * time.Second
	maxTimeout     = 30 * time.Minute
)

// await retries opening a store while it does not answer: ending the process would only restart it in a loop and slow the store
// further. Operators see what it waits for. Other errors, and the end of ctx, are returned.
func (p *Process) await(ctx context.Context, name string, open func(context.Context) error) error {
	check := p.Health.Register(name)
	defer check.Remove()
	pause := wait.Backoff{Initial: initialPause, Max: maxPause}
	timeouts := wait.Backoff{Initial: initialTimeout, Max: maxTimeout}
	for {
		attempt, cancel := context.WithTimeout(ctx, timeouts.Next())
		err := open(attempt)
		cancel()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("open the %s: %w", name, err)
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err) // the attempt was cut off, however the driver words it
		}
		if !isUnanswered(err) {
			return err
		}
		check.Fail(err.Error())
		p.Log.Warn("waiting for a store", "error", err)
		if !pause.Wait(ctx) {
			return errors.Join(ctx.Err(), err)
		}
	}
}

func isUnanswered(err error) bool {
	return errors.Is(err, views.ErrUnavailable) || errors.Is(err, blob.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}

// Belong delays parts added later until these stores are known to belong to the installation of a domain's journals.
func (p *Process) Belong(journalsOf event.Domain, stores ...installation.Place) *installation.Gate {
	journals := installation.Journals(p.NC, journalsOf.Stream(0))
	gate := installation.NewGate(p.Log, journals, func() []installation.Place { return stores })
	p.Add("stores of one installation", gate)
	return gate
}

// Join makes the process a member of its service, whose members share the partitions. Service, Partitions and Logger of cfg
// come from the process. The membership begins when the service passed to AddShared runs.
func (p *Process) Join(cfg members.Config) *members.Member {
	cfg.Service, cfg.Partitions, cfg.Logger = p.Program.String(), p.Partitions, p.Log
	membership := members.New(p.NC, cfg)
	p.Grace += membership.StopTime()
	return membership
}

// Service is a part that other parts wait for.
type Service interface {
	lifecycle.Component
	lifecycle.Readier
}

// Add adds a part. Parts start in the order in which they were added, each once the previous ones are ready, and stop in
// reverse. A part's optional method Unready returns nil while it is ready, and else the reason for operators.
func (p *Process) Add(name string, part lifecycle.Component) {
	p.watch(name, part)
	p.group.Add(name, part)
}

// AddShared adds a service that works on the partitions assigned by its membership, and hands them over before it stops.
func (p *Process) AddShared(name string, service Service, membership *members.Member) {
	p.watch(name, service)
	p.group.Add(name, shared{service, membership})
}

type shared struct {
	Service
	membership *members.Member
}

// Run implements lifecycle.Component.
func (s shared) Run(ctx context.Context) error { return s.membership.Host(ctx, s.Service.Run) }

func (p *Process) watch(name string, part any) {
	if service, ok := part.(interface{ Unready() error }); ok {
		p.Health.Watch(name, service.Unready)
	}
}

// OnClose registers a function to call when the process ends, after everything opened later is closed.
func (p *Process) OnClose(close func() error) { p.closers = append(p.closers, close) }

// Close closes everything that was opened. Only a process that never ran needs it.
func (p *Process) Close() error {
	var err error
	for _, close := range slices.Backward(p.closers) {
		err = errors.Join(err, close())
	}
	return err
}

// Run works until ctx ends or a part fails, stops all parts and closes everything. It returns nil after an orderly stop.
// Starting has no time limit: a service folds everything not covered by a snapshot or checkpoint, as fast as its stores allow.
func (p *Process) Run(ctx context.Context) error {
	return p.RunAfter(ctx, func(context.Context) error { return nil })
}

// RunAfter is Run for parts that wire adds, possibly after waiting for stores. Operators get answers from the beginning to the
// end.
func (p *Process) RunAfter(ctx context.Context, wire func(context.Context) error) error {
	work := func(ctx context.Context) error {
		if err := wire(ctx); err != nil {
			return err
		}
		p.group.Grace = p.Grace
		return p.group.Run(ctx)
	}
	if p.OpsListen == "" {
		return errors.Join(work(ctx), p.Close())
	}
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() {
		defer stopWork()
		served <- p.serveOperators(serving)
	}()
	err := work(working)
	stopServing()
	return errors.Join(<-served, err, p.Close())
}

// OpsOnAPI serves operators on the API's listener, without profiles. It is nil if they have their own listener.
func (p *Process) OpsOnAPI() http.Handler {
	if p.OpsListen != "" {
		return nil
	}
	return telemetry.Handler(p.Metrics, p.Health)
}

const (
	opsTimeout = 10 * time.Second // for one request of an operator
	opsGrace   = time.Second      // for requests in flight at a stop
)

// serveOperators serves liveness, readiness, metrics and profiles.
func (p *Process) serveOperators(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.OpsListen)
	if err != nil {
		return fmt.Errorf("listen for operators: %w", err)
	}
	p.Log.Info("listening for operators", "address", listener.Addr().String())
	server := &http.Server{
		Handler: telemetry.HandlerWithProfiles(p.Metrics, p.Health), ReadTimeout: opsTimeout, WriteTimeout: opsTimeout,
		IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve operators: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), opsGrace)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		server.Close()
	}
	<-failed //nolint:errcheck // it is http.ErrServerClosed
	return nil
}
