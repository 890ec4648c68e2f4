package standalone

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/host"
	"quire.dev/services/standalone/internal/export"
)

// ExportJournals writes billing's journals to a folder. Of a data folder that no process uses, it starts the journal server and
// nothing else, so that no message is added.
func ExportJournals(ctx context.Context, cfg host.Settings, d Deps, to string, o export.Options) (m *export.Manifest, err error) {
	running := false
	if IsEmbedded(cfg) {
		if running, err = IsRunning(cfg); err != nil {
			return nil, err
		}
	}
	if IsEmbedded(cfg) && !running {
		q, err := New(cfg, d)
		if err != nil {
			return nil, err
		}
		var nc *nats.Conn
		err = q.whileStopped(ctx, func(ctx context.Context, p *process) (err error) {
			if err = p.startJournal(ctx); err == nil {
				nc, err = p.connect("export")
			}
			return err
		}, func(ctx context.Context) (err error) {
			m, err = export.Run(ctx, nc, to, o)
			return err
		})
		return m, err
	}
	opened := host.New(cfg, d.Logger)
	defer func() { err = errors.Join(err, opened.Close()) }()
	nc, err := connectAs(ctx, backupUser, opened, cfg, d.Logger)
	if err != nil {
		return nil, err
	}
	return export.Run(ctx, nc, to, o)
}
