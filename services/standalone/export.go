package standalone

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/journal"
	"quire.dev/pkg/views"
	"quire.dev/services/standalone/internal/export"
)

// ExportJournals writes billing's journals to a folder.
func ExportJournals(ctx context.Context, cfg host.Settings, d Deps, to string, o export.Options) (m *export.Manifest, err error) {
	err = withJournals(ctx, cfg, d, o.Books, func(ctx context.Context, from export.Source) error {
		m, err = export.Run(ctx, from, to, o)
		return err
	})
	return m, err
}

// withJournals calls read with a connection to the journals, the archive and, for books, with billing's read model. Of a data folder that no process
// uses, it starts the journal server and opens that read model, and nothing else, so that no message is added.
func withJournals(ctx context.Context, cfg host.Settings, d Deps, books bool, read func(context.Context, export.Source) error) (err error) {
	cfg.MongoDatabase = databaseOf(cfg.MongoURL)
	running := false
	if IsEmbedded(cfg) {
		if running, err = IsRunning(cfg); err != nil {
			return err
		}
	}
	if IsEmbedded(cfg) && !running {
		return withStoppedJournals(ctx, cfg, d, books, read)
	}
	if books && hasFileModels(cfg) && !running {
		if running, err = IsRunning(cfg); err != nil || !running {
			return errors.Join(err, fmt.Errorf("no quire is running on %s, and the settings name no other read model: set QUIRE_POSTGRES_URL or QUIRE_MONGO_URL to billing's", cfg.Data))
		}
	}
	opened := host.New(cfg, d.Logger)
	defer func() { err = errors.Join(err, opened.Close()) }()
	from := export.Source{}
	if from.Blobs, err = archiveOf(ctx, opened, cfg); err != nil {
		return err
	}
	if from.NC, err = connectAs(ctx, backupUser, opened, cfg, d.Logger); err != nil {
		return err
	}
	if books {
		if from.ReadModel, err = billingModel(ctx, opened, cfg); err != nil {
			return err
		}
	}
	err = read(ctx, from)
	if errors.Is(err, journal.ErrGap) && from.Blobs == nil {
		return fmt.Errorf("%w. The archive has older messages: set QUIRE_S3_URL", err)
	}
	return err
}

// archiveOf returns the blob store with the archive; nil if the settings name none.
func archiveOf(ctx context.Context, opened *host.Process, cfg host.Settings) (blob.Store, error) {
	switch {
	case cfg.S3URL != "":
		return opened.OpenBucket(ctx)
	case IsEmbedded(cfg):
		return disk.Reading(filepath.Join(cfg.Data, "blobs")), nil
	}
	return nil, nil
}

func withStoppedJournals(ctx context.Context, cfg host.Settings, d Deps, books bool, read func(context.Context, export.Source) error) error {
	q, err := New(cfg, d)
	if err != nil {
		return err
	}
	from := export.Source{Stopped: true}
	return q.whileStopped(ctx, func(ctx context.Context, p *process) (err error) {
		if err = p.startJournal(ctx); err == nil {
			from.NC, err = p.connect("export")
		}
		if err == nil {
			from.Blobs, err = archiveOf(ctx, p.host, cfg)
		}
		if err != nil || !books {
			return err
		}
		if hasFileModels(cfg) {
			if _, err := p.openView(ctx, event.Billing, collectionsOf(event.Billing)); err != nil {
				return err
			}
		}
		from.ReadModel, err = billingModel(ctx, p.host, cfg)
		return err
	}, func(ctx context.Context) error { return read(ctx, from) })
}

// hasFileModels reports whether the read models are in the data folder.
func hasFileModels(cfg host.Settings) bool { return cfg.PostgresURL == "" && cfg.MongoURL == "" }

// billingModel returns a function that opens billing's read model to read it. One in a data folder must be open already, in this
// process or another.
func billingModel(ctx context.Context, opened *host.Process, cfg host.Settings) (func(context.Context) (export.ReadModel, error), error) {
	if cfg.MongoURL != "" {
		store, err := opened.OpenViews(ctx, string(event.Billing), collectionsOf(event.Billing))
		return func(context.Context) (export.ReadModel, error) { return kept{store}, nil }, err
	}
	snapshot, err := snapshotsOf(cfg)
	return func(ctx context.Context) (export.ReadModel, error) {
		s, err := snapshot(ctx, event.Billing)
		return moment{s}, err
	}, err
}

// kept is a store that its opener closes.
type kept struct{ views.Store }

// Close implements export.ReadModel.
func (kept) Close() error { return nil }

// moment is a read model as of a moment.
type moment struct{ views.Snapshot }

// Checkpoint implements export.ReadModel.
func (m moment) Checkpoint(ctx context.Context, stream string) (uint64, error) {
	all, err := m.Checkpoints(ctx)
	return all[stream], err
}
