package standalone

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/config"
	"quire.dev/pkg/document"
	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/rpc"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/archive"
	"quire.dev/services/billing"
	"quire.dev/services/standalone/internal/backup"
	"quire.dev/services/standalone/internal/datafolder"
	"quire.dev/services/standalone/internal/natsserver"
)

// addSocket shares the embedded journal server with the operator's commands on this machine.
func (p *process) addSocket() error {
	listener, err := p.folder.Listen()
	if err != nil {
		return err
	}
	p.host.Add("socket for the operator", lifecycle.Func(func(ctx context.Context) error { return p.journal.Share(ctx, listener) }))
	return nil
}

// Copies are the options of BackUp and Restore.
type Copies struct {
	Place    string // a folder, or s3://bucket/prefix
	Version  string // of quire
	Logger   *slog.Logger
	Progress func(what string, done, total uint64)
}

// IsEmbedded reports whether a process on the settings' data folder has the journals.
func IsEmbedded(cfg host.Settings) bool { return cfg.NATSURL == "" }

// hasFolder reports whether something of the installation is in a data folder.
func hasFolder(cfg host.Settings) bool {
	return cfg.NATSURL == "" || cfg.S3URL == "" || cfg.PostgresURL == "" && cfg.MongoURL == ""
}

// IsRunning reports whether a process has the settings' data folder open.
func IsRunning(cfg host.Settings) (bool, error) {
	_, running, err := datafolder.Running(cfg.Data)
	return running, err
}

// BackUp copies the installation that the settings name to a place. If the journals are embedded, their process must be running.
func BackUp(ctx context.Context, cfg host.Settings, o Copies) (m *backup.Manifest, err error) {
	to, release, err := backup.Place(o.Place).Write(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, release()) }()
	opened := host.New(cfg, o.Logger)
	defer func() { err = errors.Join(err, opened.Close()) }()
	from, err := openSource(ctx, opened, cfg, o)
	if err != nil {
		return nil, err
	}
	return backup.Run(ctx, from, to)
}

// openSource opens the stores of the settings to read them.
func openSource(ctx context.Context, opened *host.Process, cfg host.Settings, o Copies) (from backup.Source, err error) {
	from = backup.Source{Version: o.Version, Progress: o.Progress, Collections: collectionsOf, Alone: billing.IsAlone, Blobs: disk.Reading(filepath.Join(cfg.Data, "blobs"))}
	if from.NC, err = connectAs(ctx, backupUser, opened, cfg, o.Logger); err != nil {
		return from, err
	}
	if cfg.S3URL != "" {
		if from.Blobs, err = opened.OpenBucket(ctx); err != nil {
			return from, err
		}
	}
	if from.Snapshot, err = snapshotsOf(cfg); err != nil {
		return from, err
	}
	if hasFolder(cfg) {
		from.Folder, err = datafolder.Files(cfg.Data)
	}
	return from, err
}

// Users of the journal servers of a cluster, as deploy/natsconf names them.
const (
	backupUser  = "backup"
	restoreUser = "operator"
)

// connectAs connects to the journals, inside a running process or as a user of a cluster.
func connectAs(ctx context.Context, user string, opened *host.Process, cfg host.Settings, log *slog.Logger) (nc *nats.Conn, err error) {
	if IsEmbedded(cfg) {
		nc, err = nats.Connect("", nats.Name(user), nats.InProcessServer(socket{ctx, cfg.Data}), nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait))
	} else {
		nc, err = rpc.ConnectNow(ctx, cfg.NATSURL, user, log)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the journals: %w", err)
	}
	opened.OnClose(func() error { nc.Close(); return nil })
	return nc, nil
}

// socket connects to the journal server of a process with a data folder.
type socket struct {
	ctx  context.Context
	path string
}

// InProcessConn implements nats.InProcessConnProvider.
func (s socket) InProcessConn() (net.Conn, error) { return datafolder.Dial(s.ctx, s.path) }

func collectionsOf(service event.Domain) []views.Collection {
	if service == event.Billing {
		return billing.Collections()
	}
	return document.Collections(service)
}

var errMongo = errors.New("read models in MongoDB have no moment that a reader can hold: docs/mongodb.md says how to back them up")

// snapshotsOf returns a function that opens the read model of a service as of its call.
func snapshotsOf(cfg host.Settings) (func(context.Context, event.Domain) (views.Snapshot, error), error) {
	switch {
	case cfg.MongoURL != "":
		return nil, errMongo
	case cfg.PostgresURL != "":
		return func(ctx context.Context, service event.Domain) (views.Snapshot, error) {
			return host.OpenSnapshot(ctx, cfg, string(service), collectionsOf(service))
		}, nil
	}
	return func(ctx context.Context, service event.Domain) (views.Snapshot, error) {
		return sqlite.OpenSnapshot(ctx, viewFile(cfg.Data, service), collectionsOf(service))
	}, nil
}

func viewFile(folder string, service event.Domain) string {
	return filepath.Join(folder, "views", string(service)+".db")
}

// Restore fills the empty stores that the settings name from a backup. A data folder must be missing or empty.
func Restore(ctx context.Context, cfg host.Settings, o Copies) (*backup.Manifest, error) {
	return restore(ctx, cfg, o, nil)
}

func restore(ctx context.Context, cfg host.Settings, o Copies, without func(collection string) bool) (*backup.Manifest, error) {
	from, err := backup.Place(o.Place).Read(ctx)
	if err != nil {
		return nil, err
	}
	m, err := backup.Read(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Place, err)
	}
	var files map[string][]byte // none of a scratch folder, which is not the installation
	if hasFolder(cfg) && without == nil {
		if files, err = m.Files(ctx, from); err != nil {
			return nil, err
		}
	}
	return m, fill(ctx, cfg, o, m.Partitions, files, func(to backup.Destination) error {
		to.Without = without
		return backup.Restore(ctx, m, from, to)
	})
}

// RestoreArchived makes the billing journals from an archive alone, in stores that the settings name. A data folder must be missing or
// empty. It returns where the journals end, by partition.
func RestoreArchived(ctx context.Context, cfg host.Settings, o Copies) (*archive.Archived, []archive.Ending, error) {
	from, err := backup.Place(o.Place).Read(ctx)
	if err != nil {
		return nil, nil, err
	}
	archived, err := archive.OpenArchived(ctx, from, cfg.CheckpointKey.Reveal(), cfg.Partitions)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.Place, err)
	}
	var ends []archive.Ending
	err = fill(ctx, cfg, o, archived.Partitions, nil, func(to backup.Destination) (err error) {
		ends, err = backup.RestoreArchived(ctx, archived, from, to)
		return err
	})
	return archived, ends, err
}

// fill opens the stores that the settings name, and calls restore. A data folder must be missing or empty, and gets the files.
func fill(ctx context.Context, cfg host.Settings, o Copies, partitions int, files map[string][]byte, restore func(backup.Destination) error) error {
	open := func(folder *datafolder.Folder) (err error) {
		to := backup.Destination{Replicas: cfg.Replicas, Models: map[event.Domain]views.Store{}, Progress: o.Progress}
		opened := host.New(cfg, o.Logger)
		defer func() { err = errors.Join(err, opened.Close()) }()
		if err := openDestination(ctx, opened, cfg, o.Logger, folder, &to); err != nil {
			return err
		}
		return restore(to)
	}
	if !hasFolder(cfg) {
		return open(nil)
	}
	return datafolder.Restore(cfg.Data, files, []byte(cfg.Secret.Reveal()), backup.Streams(partitions), open)
}

// openDestination opens the stores of the settings. folder is nil if none is in it.
func openDestination(ctx context.Context, opened *host.Process, cfg host.Settings, log *slog.Logger, folder *datafolder.Folder, to *backup.Destination) (err error) {
	if IsEmbedded(cfg) {
		server, err := natsserver.Start(ctx, natsserver.Options{Folder: folder.NATS(), Logger: log})
		if err != nil {
			return err
		}
		opened.OnClose(func() error { server.Stop(); return nil })
		if to.NC, err = nats.Connect("", nats.Name("restore"), nats.InProcessServer(server)); err != nil {
			return err
		}
		opened.OnClose(func() error { to.NC.Close(); return nil })
		to.Replicas = 1
	} else if to.NC, err = connectAs(ctx, restoreUser, opened, cfg, log); err != nil {
		return err
	}
	if cfg.S3URL != "" {
		to.Blobs, err = opened.OpenBucket(ctx)
	} else {
		var store *disk.Store
		if store, err = disk.Open(folder.Blobs()); err == nil {
			opened.OnClose(store.Close)
			to.Blobs = store
		}
	}
	if err != nil {
		return err
	}
	for _, service := range event.Domains() {
		if to.Models[service], err = openModel(ctx, opened, cfg, service); err != nil {
			return err
		}
	}
	return nil
}

func openModel(ctx context.Context, opened *host.Process, cfg host.Settings, service event.Domain) (views.Store, error) {
	if cfg.PostgresURL != "" || cfg.MongoURL != "" {
		opened.AsOwner = true
		return opened.OpenViews(ctx, string(service), collectionsOf(service))
	}
	store, err := sqlite.Open(ctx, sqlite.Config{Path: viewFile(cfg.Data, service), Collections: collectionsOf(service)})
	if err != nil {
		return nil, err
	}
	opened.OnClose(store.Close)
	return store, nil
}

// RestoreScratch restores a backup into an empty folder for an audit, and returns the settings of a process on it. It sends
// nothing to anybody: the folder has no webhooks, and the process no SMTP server.
func RestoreScratch(ctx context.Context, cfg host.Settings, folder string, o Copies) (host.Settings, error) {
	cfg.Data, cfg.NATSURL, cfg.PostgresURL, cfg.MongoURL, cfg.S3URL = folder, "", "", "", ""
	cfg.OpsListen, cfg.SMTPURL = "", ""
	cfg.Secret, cfg.SecretPrevious = config.Secret(rand.Text()), nil
	m, err := restore(ctx, cfg, o, billing.SendsFrom)
	if err != nil {
		return cfg, err
	}
	cfg.Partitions, cfg.KeepOrphans = m.Partitions, true
	return cfg, nil
}
