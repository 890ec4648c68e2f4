package host

import (
	"context"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/sweep"
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
		service, err := newService(document.Config{
			PartitionCount: p.Partitions, Assigned: membership.Assigned(), Served: membership.Serving, Offset: p.ClockOffset,
			Instance: membership.Instance(), Live: membership.Live,
			Bounds: document.Bounds{
				Sweep:      sweep.Bounds{ContentRetention: p.ContentRetention, TrashRetention: p.TrashRetention, KeepOrphans: p.KeepOrphans},
				CacheBytes: int(p.CacheBytes), OverlayBytes: int(p.OverlayBytes),
			},
		}, document.Deps{NC: p.NC, Views: store, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics})
		if err != nil {
			return err
		}
		p.AddShared(name, service, membership)
		return nil
	}
}
