package standalone

import (
	"cmp"
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/config"
	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/inprocess"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
	"quire.dev/services/standalone/internal/datafolder"
)

// Stores are the stores of one service, of which nothing else in this process runs.
type Stores struct {
	Service event.Domain
	NC      *nats.Conn
	Shared  inprocess.Shared
	Views   views.Store
	Blobs   blob.Store

	Partitions   int    // of every domain
	Installation string // its id
}

// RepairOptions are the options of Repair.
type RepairOptions struct {
	// Recreate makes an empty read model where the embedded one is missing. Without it Stores.Views is then nil.
	Recreate bool
	// Unviewed opens no read model.
	Unviewed bool
	// User is the user of the NATS servers; empty: the service's.
	User string
}

// Repair opens the stores of a service, calls use, and closes them. Embedded ones are locked: an error wraps datafolder.ErrInUse
// while another process uses the folder. Servers named by the settings are used beside others, with the rights of that service's
// users. It is called instead of Run, once.
func (q *Quire) Repair(ctx context.Context, service event.Domain, o RepairOptions, use func(context.Context, Stores) error) error {
	var stores Stores
	return q.whileStopped(ctx, func(ctx context.Context, p *process) (err error) {
		stores, err = p.openStores(ctx, service, o)
		return err
	}, func(ctx context.Context) error { return use(ctx, stores) })
}

// whileStopped locks the data folder, if there is one, opens stores and uses them.
func (q *Quire) whileStopped(ctx context.Context, open func(context.Context, *process) error, use func(context.Context) error) (err error) {
	settings := q.cfg
	settings.OpsListen = ""
	if !q.isExternal() {
		q.folder, err = datafolder.Open(q.cfg.Data, datafolder.Options{
			Secret: q.cfg.Secret.Reveal(), Previous: q.cfg.SecretPrevious.Bytes(), AdminToken: q.cfg.AdminToken.Reveal(),
			CheckpointKey: q.cfg.CheckpointKey.Reveal(),
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, q.folder.Close()) }()
		settings.Secret = config.Secret(q.folder.Secret)
	}
	p := &process{Quire: q, host: host.New(settings, q.deps.Logger)}
	p.host.Grace = stopTimeout
	working, stop := context.WithCancel(ctx)
	defer stop()
	var result error
	err = p.host.RunAfter(working, func(ctx context.Context) error {
		if err := open(ctx, p); err != nil {
			return err
		}
		p.host.Add("repair", lifecycle.Func(func(ctx context.Context) error {
			result = use(ctx)
			stop()
			return nil
		}))
		return nil
	})
	return errors.Join(result, err)
}

// isExternal reports whether the settings name servers for everything.
func (q *Quire) isExternal() bool {
	return q.cfg.NATSURL != "" && (q.cfg.PostgresURL != "" || q.cfg.MongoURL != "") && q.cfg.S3URL != ""
}

func (p *process) openStores(ctx context.Context, service event.Domain, o RepairOptions) (s Stores, err error) {
	if err := p.startJournal(ctx); err != nil {
		return s, err
	}
	s.Service = service
	if p.cfg.NATSURL == "" {
		s.NC, err = p.connect(string(service))
	} else if s.NC, err = rpc.ConnectNow(ctx, p.cfg.NATSURL, cmp.Or(o.User, string(service)), p.deps.Logger); err == nil {
		p.host.OnClose(func() error { s.NC.Close(); return nil })
	}
	if err != nil {
		return s, err
	}
	if s.Blobs, err = p.openBlobs(ctx); err != nil {
		return s, err
	}
	s.Shared, p.recreate = p.shared, o.Recreate
	if !o.Unviewed {
		s.Views, err = p.openView(ctx, service, collectionsOf(service))
	}
	if missing := new(*missingModel); err != nil && (service == event.Billing || !errors.As(err, missing)) {
		return s, err
	}
	metadata, err := journal.Open(s.NC, service.Stream(0)).Metadata(ctx)
	if err != nil {
		return s, err
	}
	s.Installation = metadata[journal.InstallationKey]
	s.Partitions, err = journal.Partitions(metadata)
	return s, err
}
