package standalone

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/document"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
	"quire.dev/services/edge"
)

// openView opens a service's read model. Each service has a separate one, so that no commit waits for another service's.
func (p *process) openView(ctx context.Context, domain event.Domain, collections []views.Collection) (store views.Store, err error) {
	if p.cfg.MongoURL != "" {
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
	p.host.Add("stores of one installation", installation.NewGate(p.deps.Logger, journals, func() []installation.Place { return p.stores }))
	return nil
}

func (p *process) openSQLite(ctx context.Context, domain event.Domain, collections []views.Collection) (views.Store, error) {
	// Users are only in billing's read model. Documents stay in the journal too until they are certainly on the disk.
	synchronous := sqlite.Normal
	if domain == event.Billing {
		synchronous = sqlite.Full
	}
	path := filepath.Join(p.folder.Views(), string(domain)+".db")
	if err := p.folder.CheckUsed(path); err != nil {
		return nil, err
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
	service, err := billing.New(billing.Config{
		PartitionCount: p.cfg.Partitions, Book: plan.Published(p.cfg.AnonymousLimit), RegisterLimit: p.cfg.RegisterLimit, RecentBytes: int(p.cfg.RecentBytes),
		Progress: p.concurrentProgress(),
		Secrets:  append([][]byte{p.folder.Secret}, p.cfg.SecretPrevious.Bytes()...), WebhookAllowPrivate: p.cfg.WebhookAllowPrivate,
	}, billing.Deps{
		NC: nc, Views: store, Blobs: blobs, Offset: p.cfg.ClockOffset,
		Logger: p.deps.Logger, Metrics: p.host.Metrics,
	})
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

// documents is one of the document services.
type documents struct {
	domain      event.Domain
	collections []views.Collection
	new         func(document.Config, document.Deps) (*document.Engine, error)
}

func (p *process) addDocuments(ctx context.Context, d documents, blobs blob.Store) error {
	name := string(d.domain)
	store, err := p.openView(ctx, d.domain, d.collections)
	if err != nil {
		return err
	}
	nc, err := p.connect(name)
	if err != nil {
		return err
	}
	service, err := d.new(document.Config{
		PartitionCount: p.cfg.Partitions, Offset: p.cfg.ClockOffset,
		Bounds: document.Bounds{
			ContentRetention: p.cfg.ContentRetention, TrashRetention: p.cfg.TrashRetention, KeepOrphans: p.cfg.KeepOrphans,
			CacheBytes: cacheBytes, OverlayBytes: overlayBytes, CommitDelay: commitDelay,
		},
	}, document.Deps{NC: nc, Views: store, Blobs: blobs, Logger: p.deps.Logger, Metrics: p.host.Metrics})
	if err != nil {
		return err
	}
	p.engines[d.domain] = service
	p.host.Add(name, service)
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
	p.edge, err = edge.New(edge.Config{
		Listen: p.cfg.Listen, PublicURL: p.cfg.PublicURL, UpgradeURL: p.cfg.UpgradeURL, ContentURL: p.cfg.ContentURL,
		Secret: p.folder.Secret, AlsoSecrets: p.cfg.SecretPrevious.Bytes(), AdminToken: p.folder.AdminToken, AdminListen: p.cfg.AdminListen,
		TrustedProxies: p.cfg.TrustedProxies, Partitions: p.cfg.Partitions, ClockOffset: p.cfg.ClockOffset,
		RenderBytes: p.cfg.RenderBytes, UnmeteredRate: p.cfg.UnmeteredRate,
	}, edge.Deps{
		NC: nc, Blobs: blobs, Logger: p.deps.Logger, Metrics: p.host.Metrics, Health: p.host.Health, Ops: p.host.OpsOnAPI(),
		ReadNow: p.readNow, RenderCommand: p.deps.RenderCommand,
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
		p.progress(what, int64(done), int64(total))
	}
}
