// Package standalone is Quire in one process: all six services, and embedded stores unless the settings name servers for them.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/config"
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views"
	"quire.dev/services/edge"
	"quire.dev/services/standalone/internal/datafolder"
	"quire.dev/services/standalone/internal/natsserver"
)

// Deps are the dependencies of a Quire.
type Deps struct {
	Logger *slog.Logger // nil: silent
	// Progress, if set, is called during the steps of a long start. It runs on one goroutine at a time.
	Progress func(what string, done, total int64)

	// RenderCommand and AccessLog are passed to edge.Deps.
	RenderCommand []string
	AccessLog     io.Writer

	// View and Blob, if set, wrap the services' stores, for tests of stores that fail.
	View func(service string, store views.Store) views.Store
	Blob func(store blob.Store) blob.Store
	// Shared, if set, changes what the services share, for tests and measurements of the plain path over NATS.
	Shared func(shared inprocess.Shared) inprocess.Shared
	// CheckAtOnce is the size in bytes above which files are checked while in use; 0: 64 MiB.
	CheckAtOnce int64
	// NATSVersion, if set, overrides the embedded server's version, for tests of a version with unknown files.
	NATSVersion string
}

// Quire is one process. Run is called once.
type Quire struct {
	cfg   host.Settings
	deps  Deps
	ready chan struct{}

	// Set before ready is closed.
	folder   *datafolder.Folder
	journal  *natsserver.Server // nil if external
	url      string
	adminURL string
}

// stopTimeout bounds the stop of each part.
const stopTimeout = 30 * time.Second

// New returns a Quire with the settings of host.Quire. It opens nothing before Run.
func New(cfg host.Settings, deps Deps) (*Quire, error) {
	if cfg.Partitions < 1 {
		return nil, fmt.Errorf("%d partitions", cfg.Partitions)
	}
	cfg.MongoDatabase = databaseOf(cfg.MongoURL)
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	return &Quire{cfg: cfg, deps: deps, ready: make(chan struct{})}, nil
}

// Ready is closed once requests are served.
func (q *Quire) Ready() <-chan struct{} { return q.ready }

// URL is the address of the API. Use it after Ready.
func (q *Quire) URL() string { return q.url }

// AdminURL is the address of the admin API. Use it after Ready.
func (q *Quire) AdminURL() string { return q.adminURL }

// Folder is the data folder. Use it after Ready, on one goroutine.
func (q *Quire) Folder() *datafolder.Folder { return q.folder }

// AdminToken is the first admin token.
func (q *Quire) AdminToken() string { return firstToken(q.folder.AdminToken) }

// AdminTokenPlace tells people where to find the admin token.
func (q *Quire) AdminTokenPlace() string {
	if q.cfg.AdminToken != "" {
		return "QUIRE_ADMIN_TOKEN"
	}
	return q.folder.AdminTokenFile()
}

// Run opens the data folder, serves until ctx ends or a part fails, and stops in reverse order of the start: the edge finishes
// its requests first, the journal server stops last. It returns nil after an orderly stop.
func (q *Quire) Run(ctx context.Context) (err error) {
	q.folder, err = datafolder.Open(q.cfg.Data, datafolder.Options{
		Secret: q.cfg.Secret.Reveal(), Previous: q.cfg.SecretPrevious.Bytes(), AdminToken: q.cfg.AdminToken.Reveal(),
		CheckpointKey: q.cfg.CheckpointKey.Reveal(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.folder.Close()) }()
	settings := q.cfg
	settings.Secret, settings.AdminToken = config.Secret(q.folder.Secret), config.Secret(q.folder.AdminToken)
	settings.CheckpointKey = config.Secret(q.folder.CheckpointKey)
	p := &process{Quire: q, host: host.New(settings, q.deps.Logger), engines: map[event.Domain]*document.Engine{}}
	p.host.Grace = stopTimeout
	if err := p.host.OpenTraces(ctx, "quire"); err != nil {
		return err
	}
	return p.host.RunAfter(ctx, p.wire)
}

// process is one call of Run.
type process struct {
	*Quire
	host *host.Process // its settings have the data folder's secrets
	edge *edge.Service

	shared  inprocess.Shared
	engines map[event.Domain]*document.Engine
	gate    *installation.Gate
	stores  []installation.Place // that must belong to the journals' installation
	checks  []fileCheck

	recreate bool // a missing read model is made anew
}

// fileCheck checks files in use, which would slow down the start.
type fileCheck struct {
	name string
	run  lifecycle.Func // returns nil at its end
}

// checkLater schedules a check for when all parts serve.
func (p *process) checkLater(name string, run lifecycle.Func) {
	p.checks = append(p.checks, fileCheck{name, run})
}

// addChecks adds the checks as parts of the process, which ends at their first error.
func (p *process) addChecks() {
	for _, c := range p.checks {
		p.host.Add("check of "+c.name, lifecycle.Func(func(ctx context.Context) error {
			if err := c.run(ctx); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}))
	}
}

// wire adds the parts in the order of their start: the journal server, the journals, billing, since all services settle with
// it, the documents, and the edge.
func (p *process) wire(ctx context.Context) error {
	started := p.host.Health.Register("start") // else operators would see only the services started so far
	if err := p.startJournal(ctx); err != nil {
		return err
	}
	if p.journal != nil {
		if err := p.addSocket(); err != nil {
			return err
		}
	}
	p.shared.Reads = p.readNow
	if p.deps.Shared != nil {
		p.shared = p.deps.Shared(p.shared)
	}
	if err := p.addProvisioning(); err != nil {
		return err
	}
	blobs, err := p.openBlobs(ctx)
	if err != nil {
		return err
	}
	if err := p.addGate(blobs); err != nil {
		return err
	}
	if err := p.addBilling(ctx, blobs); err != nil {
		return err
	}
	for _, policy := range []fold.Policy{fold.Pastes(), fold.QuickPastes(), fold.Files()} {
		if err := p.addDocuments(ctx, policy, blobs); err != nil {
			return err
		}
	}
	if err := p.addArchive(blobs); err != nil {
		return err
	}
	if err := p.addEdge(blobs); err != nil {
		return err
	}
	if p.journal != nil {
		p.checkLater("the archive of the billing journals", func(ctx context.Context) error { return p.checkArchive(ctx, blobs) })
	}
	p.addChecks()
	p.host.Add("announcement", lifecycle.Func(func(ctx context.Context) error { return p.announce(ctx, started) }))
	return nil
}

// announce runs once all other parts are ready.
func (p *process) announce(ctx context.Context, started *telemetry.Check) error {
	if p.journal != nil {
		nc, err := p.connect("standalone")
		if err != nil {
			return err
		}
		if err := p.rememberJournals(ctx, nc); err != nil {
			return err
		}
	}
	p.url = "http://" + p.edge.Addr()
	p.adminURL = p.edge.AdminURL()
	if err := p.folder.Announce(p.url, p.adminURL); err != nil {
		return err
	}
	started.Ready()
	close(p.ready)
	<-ctx.Done()
	return nil
}

// RestartJournal restarts the embedded journal server on the same files. Use it after Ready.
func (q *Quire) RestartJournal(ctx context.Context) error {
	if q.journal == nil {
		return errors.New("the journal server is external")
	}
	return q.journal.Restart(ctx)
}
