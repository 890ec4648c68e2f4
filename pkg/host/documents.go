package host

import (
	"context"

	"quire.dev/pkg/document"
	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/members"
)

// Documents is the wiring of paste, lite and file, which differ in their policy.
func Documents(policy fold.Policy) func(context.Context, *Process) error {
	return func(ctx context.Context, p *Process) error {
		name := p.Program.String()
		store, err := p.OpenViews(ctx, name, document.Collections(policy.Domain))
		if err != nil {
			return err
		}
		membership := p.Join(members.Config{})
		service, err := document.New(document.Config{
			Policy: policy, PartitionCount: p.Partitions, Assigned: membership.Assigned(), Served: membership.Serving, Offset: p.ClockOffset,
			Bounds: document.Bounds{
				ContentRetention: p.ContentRetention, CacheBytes: int(p.CacheBytes), OverlayBytes: int(p.OverlayBytes), Replicas: p.Replicas,
			},
		}, document.Deps{NC: p.NC, Views: store, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics})
		if err != nil {
			return err
		}
		p.AddShared(name, service, membership)
		return nil
	}
}
