package standalone

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/host"
	"quire.dev/services/standalone/internal/export"
)

// ExportJournals writes billing's journals to a folder.
func ExportJournals(ctx context.Context, cfg host.Settings, d Deps, to string, o export.Options) (m *export.Manifest, err error) {
	err = withJournals(ctx, cfg, d, func(ctx context.Context, nc *nats.Conn) error {
		m, err = export.Run(ctx, nc, to, o)
		return err
	})
	return m, err
}

// withJournals calls read with a connection to the journals. Of a data folder that no process uses, it starts the journal server and
// nothing else, so that no message is added.
func withJournals(ctx context.Context, cfg host.Settings, d Deps, read func(context.Context, *nats.Conn) error) (err error) {
	running := false
	if IsEmbedded(cfg) {
		if running, err = IsRunning(cfg); err != nil {
			return err
		}
	}
	if IsEmbedded(cfg) && !running {
		q, err := New(cfg, d)
		if err != nil {
			return err
		}
		var nc *nats.Conn
		return q.whileStopped(ctx, func(ctx context.Context, p *process) (err error) {
			if err = p.startJournal(ctx); err == nil {
				nc, err = p.connect("export")
			}
			return err
		}, func(ctx context.Context) error { return read(ctx, nc) })
	}
	opened := host.New(cfg, d.Logger)
	defer func() { err = errors.Join(err, opened.Close()) }()
	nc, err := connectAs(ctx, backupUser, opened, cfg, d.Logger)
	if err != nil {
		return err
	}
	return read(ctx, nc)
}
