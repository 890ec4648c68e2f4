package standalone

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/blob/s3"
	"quire.dev/pkg/document"
	"quire.dev/pkg/event"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/mongo"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
	"quire.dev/services/edge"
	"quire.dev/services/file"
	"quire.dev/services/lite"
	"quire.dev/services/paste"
)

// stores are what the services keep their states in.
type stores struct {
	views map[event.Domain]views.Store
	blobs blob.Store
}

// openStores opens the read models and the blobs. Each service has a read model of its own, so that no
// commit waits for another service's.
func (p *process) openStores(ctx context.Context) (*stores, error) {
	out := &stores{views: map[event.Domain]views.Store{}}
	for domain, collections := range map[event.Domain][]views.Collection{
		event.Billing: billing.Collections(), event.Paste: paste.Collections(), event.Lite: lite.Collections(), event.File: file.Collections(),
	} {
		store, err := p.openView(ctx, domain, collections)
		if err != nil {
			return nil, err
		}
		if p.deps.View != nil {
			store = p.deps.View(string(domain), store)
		}
		out.views[domain] = store
	}
	var err error
	if out.blobs, err = p.openBlobs(ctx); err != nil {
		return nil, err
	}
	if p.deps.Blob != nil {
		out.blobs = p.deps.Blob(out.blobs)
	}
	return out, nil
}

func (p *process) openView(ctx context.Context, domain event.Domain, collections []views.Collection) (views.Store, error) {
	if p.cfg.MongoURL != "" {
		store, err := mongo.Open(ctx, mongo.Config{
			URI: p.cfg.MongoURL, Database: databaseOf(p.cfg.MongoURL), Collections: collections, Logger: p.deps.Logger,
		})
		if err != nil {
			return nil, fmt.Errorf("open the read model of %s: %w", domain, err)
		}
		p.onClose(store.Close)
		p.group.Add("read model of "+string(domain), store)
		return store, nil
	}
	// Users are nowhere but in billing's read model; documents are in the journal too until they are
	// surely on the disk.
	synchronous := sqlite.Normal
	if domain == event.Billing {
		synchronous = sqlite.Full
	}
	path := filepath.Join(p.folder.Views(), string(domain)+".db")
	if err := p.folder.CheckUsed(path); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: path, Collections: collections, Synchronous: synchronous})
	if err != nil {
		return nil, fmt.Errorf("open the read model of %s: %w", domain, err)
	}
	p.onClose(store.Close)
	return store, nil
}

const defaultDatabase = "quire"

// databaseOf is the database that a MongoDB URL names.
func databaseOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil { // several hosts with ports are no URL to this package
		if _, rest, ok := strings.Cut(uri, "://"); ok {
			_, path, _ := strings.Cut(rest, "/")
			name, _, _ := strings.Cut(path, "?")
			if name != "" {
				return name
			}
		}
		return defaultDatabase
	}
	if name := strings.Trim(u.Path, "/"); name != "" {
		return name
	}
	return defaultDatabase
}

func (p *process) openBlobs(ctx context.Context) (blob.Store, error) {
	if p.cfg.S3URL != "" {
		return s3.Open(ctx, s3.Config{URL: p.cfg.S3URL})
	}
	store, err := disk.Open(p.folder.Blobs())
	if err != nil {
		return nil, err
	}
	p.onClose(store.Close)
	return store, nil
}

// addServices puts the services into the order in which they start: billing, since all settle with it,
// the documents, and the edge last. They stop in the reverse order.
func (p *process) addServices(s *stores) error {
	metrics, health := telemetry.NewMetrics(), telemetry.NewHealth()
	if p.Quire.journal != nil {
		p.group.Add("journal health", watch(health.Register("journal"), p.Quire.journal.Health))
	}
	if err := p.addBilling(s, metrics, health); err != nil {
		return err
	}
	if err := p.addDocuments(s, metrics, health); err != nil {
		return err
	}
	return p.addEdge(s, metrics, health)
}

func (p *process) addBilling(s *stores, metrics *telemetry.Metrics, health *telemetry.Health) error {
	nc, err := p.connect("billing")
	if err != nil {
		return err
	}
	service, err := billing.New(billing.Config{
		PartitionCount: p.cfg.Partitions, Book: plan.Published(p.cfg.AnonymousLimit), Progress: p.concurrentProgress(),
	}, billing.Deps{
		NC: nc, Views: s.views[event.Billing], Blobs: s.blobs, Offset: p.cfg.ClockOffset,
		Logger: p.deps.Logger, Metrics: metrics, Health: health,
	})
	if err != nil {
		return err
	}
	p.group.Add("billing", service)
	return nil
}

// documents is what the three document services have in common.
type documents interface {
	lifecycle.Component
	lifecycle.Readier
	Serving() bool
}

func (p *process) addDocuments(s *stores, metrics *telemetry.Metrics, health *telemetry.Health) error {
	bounds := document.Bounds{ContentRetention: p.cfg.ContentRetention, CacheBytes: cacheBytes, OverlayBytes: overlayBytes}
	for _, domain := range event.Documents() {
		nc, err := p.connect(string(domain))
		if err != nil {
			return err
		}
		deps := document.Deps{NC: nc, Views: s.views[domain], Blobs: s.blobs, Logger: p.deps.Logger, Metrics: metrics}
		var service documents
		switch domain {
		case event.Paste:
			service, err = paste.New(paste.Config{PartitionCount: p.cfg.Partitions, Offset: p.cfg.ClockOffset, Bounds: bounds}, deps)
		case event.Lite:
			service, err = lite.New(lite.Config{PartitionCount: p.cfg.Partitions, Offset: p.cfg.ClockOffset, Bounds: bounds}, deps)
		case event.File:
			service, err = file.New(file.Config{PartitionCount: p.cfg.Partitions, Offset: p.cfg.ClockOffset, Bounds: bounds}, deps)
		}
		if err != nil {
			return err
		}
		p.group.Add(string(domain), service)
		p.group.Add(string(domain)+" health", watch(health.Register(string(domain)), func() error {
			if !service.Serving() {
				return errCatchingUp
			}
			return nil
		}))
	}
	return nil
}

var errCatchingUp = errors.New("it folds what it has missed")

// What the three document services hold in memory together has to leave room for the rest of 400 MB.
const (
	cacheBytes   = 24 << 20
	overlayBytes = 24 << 20
)

func (p *process) addEdge(s *stores, metrics *telemetry.Metrics, health *telemetry.Health) error {
	nc, err := p.connect("edge")
	if err != nil {
		return err
	}
	service, err := edge.New(edge.Config{
		Listen: p.cfg.Listen, PublicURL: p.cfg.PublicURL, Secret: p.folder.Secret, AdminToken: p.folder.AdminToken,
		TrustedProxies: p.cfg.TrustedProxies, Partitions: p.cfg.Partitions, ClockOffset: p.cfg.ClockOffset,
	}, edge.Deps{NC: nc, Blobs: s.blobs, Logger: p.deps.Logger, Metrics: metrics, Health: health})
	if err != nil {
		return err
	}
	p.group.Add("edge", service)
	p.edge = service
	return nil
}

const watchEvery = time.Second

// watch keeps a health check up to date.
func watch(check *telemetry.Check, ask func() error) lifecycle.Component {
	return lifecycle.Func(func(ctx context.Context) error {
		defer check.Remove()
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			if err := ask(); err != nil {
				check.Fail(err.Error())
			} else {
				check.Ready()
			}
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
		}
	})
}

// concurrentProgress passes on what billing tells from several goroutines.
func (p *process) concurrentProgress() func(what string, done, total uint64) {
	var mu sync.Mutex
	return func(what string, done, total uint64) {
		mu.Lock()
		defer mu.Unlock()
		p.progress(what, int64(done), int64(total))
	}
}
