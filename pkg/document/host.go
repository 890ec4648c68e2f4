package document

import (
	"context"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/members"
)

// Wire returns the function that adds the service with a policy to its process: paste, lite or file.
func Wire(policy fold.Policy) func(context.Context, *host.Process) error {
	return func(ctx context.Context, p *host.Process) error {
		name := string(policy.Domain)
		store, err := p.OpenViews(ctx, name, Collections(policy.Domain))
		if err != nil {
			return err
		}
		p.Belong(policy.Domain, installation.ReadModel(name, store), installation.Blobs(p.Blobs, false))
		membership := p.Join(members.Config{})
		cfg := Configure(p.Settings)
		cfg.Policy = policy
		cfg.Assigned, cfg.Served = membership.Assigned(), membership.Serving
		cfg.Instance, cfg.Live = membership.Instance(), membership.Live
		service, err := New(cfg, Deps{NC: p.NC, Views: store, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics, Traces: p.Traces.Scope(name)})
		if err != nil {
			return err
		}
		p.AddShared(name, service, membership)
		return nil
	}
}
