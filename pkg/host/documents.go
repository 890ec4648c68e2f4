package host

import (
	"context"

	"quire.dev/pkg/document"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/members"
	"quire.dev/pkg/views"
)

// Documents returns the function that adds a document service to its process: paste, lite or file.
func Documents(
	collections []views.Collection, newService func(document.Config, document.Deps) (*document.Engine, error),
) func(context.Context, *Process) error {
	return func(ctx context.Context, p *Process) error {
		name := p.Program.String()
		store, err := p.OpenViews(ctx, name, collections)
		if err != nil {
			return err
		}
		p.Belong(installation.ReadModel(name, store), installation.Blobs(p.Blobs, false))
		membership := p.Join(members.Config{})
		cfg := ConfigureDocuments(p.Settings)
		cfg.Assigned, cfg.Served = membership.Assigned(), membership.Serving
		cfg.Instance, cfg.Live = membership.Instance(), membership.Live
		service, err := newService(cfg, document.Deps{NC: p.NC, Views: store, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics})
		if err != nil {
			return err
		}
		p.AddShared(name, service, membership)
		return nil
	}
}

// ConfigureDocuments returns the configuration of a document service that the settings ask for. Settings that a program does
// not read are zero and leave the default.
func ConfigureDocuments(s Settings) document.Config {
	return document.Config{
		PartitionCount: s.Partitions, Offset: s.ClockOffset,
		Bounds: document.Bounds{
			ContentRetention: s.ContentRetention, TrashRetention: s.TrashRetention, KeepOrphans: s.KeepOrphans,
			CacheBytes: int(s.CacheBytes), OverlayBytes: int(s.OverlayBytes),
		},
	}
}
