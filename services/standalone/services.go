package standalone

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/num"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/archive"
	"quire.dev/services/billing"
	"quire.dev/services/edge"
)

// openView opens a service's read model. Each service has a separate one, so that no commit waits for another service's.
func (p *process) openView(ctx context.Context, domain event.Domain, collections []views.Collection) (store views.Store, err error) {
	if p.cfg.PostgresURL != "" || p.cfg.MongoURL != "" {
		store, err = p.host.OpenViews(ctx, string(domain), collections)
	} else {
		store, err = p.openSQLite(ctx, domain, collections)
	}
	if err == nil && p.deps.View != nil {
		store = p.deps.View(string(domain), store)
	}
	if err == nil {
		p.stores = append(p.stores, installation.ReadModel(string(domain), store))
	}
	return store, err
}

// addGate delays the services until the blobs and all read models belong to the installation of the journals.
func (p *process) addGate(blobs blob.Store) error {
	nc, err := p.connect("installation")
	if err != nil {
		return err
	}
	p.stores = append(p.stores, installation.Blobs(blobs, true))
	journals := installation.Journals(nc, event.Billing.Stream(0))
	p.gate = installation.NewGate(p.deps.Logger, journals, func() []installation.Place { return p.stores })
	p.host.Add("stores of one installation", p.gate)
	return nil
}

func (p *process) openSQLite(ctx context.Context, domain event.Domain, collections []views.Collection) (views.Store, error) {
	// Users are only in billing's read model. Documents stay in the journal too until they are certainly on the disk.
	synchronous := sqlite.Normal
	if domain == event.Billing {
		synchronous = sqlite.Full
	}
	path := viewFile(p.folder.Path, domain)
	if err := p.folder.CheckUsed(path); err != nil && !p.recreate {
		return nil, &missingModel{domain, err}
	}
	store, err := sqlite.Open(ctx, sqlite.Config{
		Path: path, Collections: collections, Synchronous: synchronous, CheckAtOnce: p.deps.CheckAtOnce,
	})
	if err != nil {
		return nil, fmt.Errorf("open the read model of %s: %w", domain, err)
	}
	p.host.OnClose(store.Close)
	p.checkLater("the read model of "+string(domain), store.Check)
	return store, nil
}

// databaseOf returns the database named by a MongoDB URL. net/url can't parse MongoDB's host lists.
func databaseOf(uri string) string {
	_, rest, _ := strings.Cut(uri, "://")
	_, path, _ := strings.Cut(rest, "/")
	name, _, _ := strings.Cut(path, "?")
	return cmp.Or(name, "quire")
}

func (p *process) openBlobs(ctx context.Context) (store blob.Store, err error) {
	if p.cfg.S3URL != "" {
		store, err = p.host.OpenBucket(ctx)
	} else {
		store, err = p.openFolder()
	}
	if err == nil && p.deps.Blob != nil {
		store = p.deps.Blob(store)
	}
	return store, err
}

func (p *process) openFolder() (blob.Store, error) {
	store, err := disk.Open(p.folder.Blobs())
	if err != nil {
		return nil, err
	}
	p.host.OnClose(store.Close)
	return store, nil
}

func (p *process) addBilling(ctx context.Context, blobs blob.Store) error {
	store, err := p.openView(ctx, event.Billing, billing.Collections())
	if err != nil {
		return err
	}
	nc, err := p.connect("billing")
	if err != nil {
		return err
	}
	cfg := billing.Configure(p.host.Settings)
	cfg.Progress = p.concurrentProgress()
	cfg.Installation = func() string { return p.gate.ID() }
	service, err := billing.New(cfg, billing.Deps{NC: nc, Shared: p.shared, Views: store, Blobs: blobs, Logger: p.deps.Logger, Metrics: p.host.Metrics, Traces: p.host.Traces.Scope("billing")})
	if err != nil {
		return err
	}
	p.host.Add("billing", service)
	return nil
}

// The memory of the three document services together must leave room for the rest of 400 MB.
const (
	cacheBytes   = 24 << 20
	overlayBytes = 24 << 20
)

// commitDelay is how long the document services gather messages for a commit. The committing thread shares the processors with
// everything else, and small commits delay answers less; the read model in this process does not mind many.
const commitDelay = 25 * time.Millisecond

func (p *process) addDocuments(ctx context.Context, policy fold.Policy, blobs blob.Store) error {
	name := string(policy.Domain)
	store, err := p.openView(ctx, policy.Domain, document.Collections(policy.Domain))
	if err != nil {
		return err
	}
	nc, err := p.connect(name)
	if err != nil {
		return err
	}
	cfg := document.Configure(p.host.Settings)
	cfg.Policy = policy
	cfg.Bounds.CacheBytes, cfg.Bounds.OverlayBytes, cfg.Bounds.CommitDelay = cacheBytes, overlayBytes, commitDelay
	service, err := document.New(cfg, document.Deps{NC: nc, Shared: p.shared, Views: store, Blobs: blobs, Logger: p.deps.Logger, Metrics: p.host.Metrics, Traces: p.host.Traces.Scope(name)})
	if err != nil {
		return err
	}
	p.engines[policy.Domain] = service
	p.host.Add(name, service)
	return nil
}

func (p *process) addArchive(blobs blob.Store) error {
	nc, err := p.connect("archive")
	if err != nil {
		return err
	}
	cfg := archive.Configure(p.host.Settings)
	cfg.Installation = p.gate.ID
	deps := archive.Deps{NC: nc, Shared: p.shared, Blobs: blobs, Folder: p.folder.Path, Logger: p.deps.Logger, Metrics: p.host.Metrics}
	if p.journal != nil || p.cfg.RetentionNATSURL != "" {
		deps.Deleting = p.connectToDelete
	}
	service, err := archive.New(cfg, deps)
	if err != nil {
		return err
	}
	// It is not watched: a log that does not grow is no reason to send requests elsewhere.
	p.host.Add("archive", lifecycle.Func(service.Run))
	return nil
}

// readNow answers an edge's read from the memory of this process.
func (p *process) readNow(d event.Domain, partition int, read *event.Read, after uint64, nowMS int64) *event.ReadAnswer {
	return p.engines[d].ReadNow(partition, read, after, nowMS)
}

func (p *process) addEdge(blobs blob.Store) error {
	nc, err := p.connect("edge")
	if err != nil {
		return err
	}
	cfg := edge.Configure(p.host.Settings)
	cfg.AskPartitions = false // billing and the journals of this process have one number
	p.edge, err = edge.New(cfg, edge.Deps{
		NC: nc, Shared: p.shared, Blobs: blobs, Logger: p.deps.Logger, Metrics: p.host.Metrics, Health: p.host.Health, Ops: p.host.OpsOnAPI(),
		RenderCommand: p.deps.RenderCommand, AccessLog: p.deps.AccessLog, Traces: p.host.Traces.Scope("edge"),
	})
	if err != nil {
		return err
	}
	p.host.Add("edge", p.edge)
	return nil
}

// concurrentProgress passes on billing's progress, which comes from several goroutines.
func (p *process) concurrentProgress() func(what string, done, total uint64) {
	var mu sync.Mutex
	return func(what string, done, total uint64) {
		mu.Lock()
		defer mu.Unlock()
		p.progress(what, num.Int64(done), num.Int64(total))
	}
}

// missingModel is the error of a read model whose file is missing, though it was there at an earlier start.
type missingModel struct {
	domain event.Domain
	cause  error
}

func (e *missingModel) Error() string {
	if e.domain == event.Billing { // its users exist nowhere else
		return e.cause.Error()
	}
	return fmt.Sprintf("%v. Without one, `quire repair accept-gap --service %s` makes an empty one, records what the journal no longer has, and goes on: "+
		"docs/refusals.md", e.cause, e.domain)
}

func (e *missingModel) Unwrap() error { return e.cause }
