// Package standalone is quire in one process: embedded journal server, read models and blob store, or
// those that the settings name, and all five services over connections inside the process.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/views"
	"quire.dev/services/edge"
	"quire.dev/services/standalone/internal/datafolder"
	"quire.dev/services/standalone/internal/natsserver"
)

// Deps is what the process gives to quire.
type Deps struct {
	Logger  *slog.Logger // nil: silent
	Version string
	// Progress, if set, is told what a long start is at. It runs on one goroutine at a time.
	Progress func(what string, done, total int64)

	// View and Blob, if set, put something between the services and their stores. For tests of
	// failing stores.
	View func(service string, store views.Store) views.Store
	Blob func(store blob.Store) blob.Store
}

// Quire is one process. Run is called once.
type Quire struct {
	cfg   Config
	deps  Deps
	ready chan struct{}

	// Set before ready is closed.
	folder  *datafolder.Folder
	journal *natsserver.Server // nil where it is not embedded
	url     string
}

// startTimeout bounds how long one service may take to fold what it has not seen. It is long, since
// it is the journals' length that decides; progress is reported meanwhile.
const (
	startTimeout = 24 * time.Hour
	stopTimeout  = 30 * time.Second
)

// New makes a Quire. Nothing is opened before Run.
func New(cfg Config, deps Deps) (*Quire, error) {
	if cfg.ClockOffset != 0 && !cfg.Dev {
		return nil, errors.New("a clock offset is for development only")
	}
	if cfg.Partitions < 1 {
		return nil, fmt.Errorf("%d partitions", cfg.Partitions)
	}
	deps.Logger = orSilent(deps.Logger)
	return &Quire{cfg: cfg, deps: deps, ready: make(chan struct{})}, nil
}

// Ready is closed once requests are served.
func (q *Quire) Ready() <-chan struct{} { return q.ready }

// URL is where the process listens, or its public URL. It is for use after Ready.
func (q *Quire) URL() string { return q.url }

// Folder is the data folder. It is for use after Ready, by one goroutine.
func (q *Quire) Folder() *datafolder.Folder { return q.folder }

// AdminTokenPlace tells people where the admin token is.
func (q *Quire) AdminTokenPlace() string {
	if q.cfg.AdminToken != "" {
		return "QUIRE_ADMIN_TOKEN"
	}
	return q.folder.AdminTokenFile()
}

// Run opens the data folder, serves until ctx ends or a part fails, and stops in the reverse order of
// the start: the edge finishes its requests first, the journal server goes last. It returns nil after
// an orderly stop.
func (q *Quire) Run(ctx context.Context) (err error) {
	q.folder, err = datafolder.Open(q.cfg.Data, datafolder.Options{
		Secret: q.cfg.Secret.Reveal(), AdminToken: q.cfg.AdminToken.Reveal(),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.folder.Close()) }()
	p := &process{Quire: q, group: lifecycle.New(q.deps.Logger)}
	p.group.Start, p.group.Grace = startTimeout, stopTimeout
	err = p.run(ctx)
	return errors.Join(err, p.close())
}

// process is one Run: what it opened, to be closed in reverse.
type process struct {
	*Quire
	group   *lifecycle.Group
	edge    *edge.Service
	closers []func() error
}

func (p *process) onClose(f func() error) { p.closers = append(p.closers, f) }

func (p *process) close() error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	return errors.Join(errs...)
}

func (p *process) run(ctx context.Context) error {
	if err := p.startJournal(ctx); err != nil {
		return err
	}
	stores, err := p.openStores(ctx)
	if err != nil {
		return err
	}
	if err := p.addServices(stores); err != nil {
		return err
	}
	p.group.Add("announcement", lifecycle.Func(p.announce))
	return p.group.Run(ctx)
}

// announce is the last to start: everything is ready.
func (p *process) announce(ctx context.Context) error {
	if err := p.rememberJournals(ctx); err != nil {
		return err
	}
	p.url = "http://" + p.edge.Addr()
	if err := p.folder.Announce(p.url); err != nil {
		return err
	}
	close(p.ready)
	<-ctx.Done()
	return nil
}

// RestartJournal stops the embedded journal server and starts it again on the same files. It is for use after Ready.
func (q *Quire) RestartJournal(ctx context.Context) error {
	if q.journal == nil {
		return errors.New("the journal server is elsewhere")
	}
	return q.journal.Restart(ctx)
}
