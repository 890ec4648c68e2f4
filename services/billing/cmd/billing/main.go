// Command billing runs one billing instance of a cluster. billing provision creates the journals of all services and ends, and billing
// generations closes the generations of billing's journals that are due.
package main

import (
	"context"
	"os"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/members"
	"quire.dev/services/billing"
)

func main() {
	// The jobs that make the journals need no separate image.
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case "provision":
			os.Exit(host.MainProvision())
		case "generations":
			os.Exit(host.MainGenerations())
		}
	}
	os.Exit(host.Main(host.Billing, wire))
}

const (
	// Number of replicas per partition: while one is lost the other answers.
	replicas = 2
	// handover bounds how long a moved partition is still folded here: its next replica reads a snapshot and the journal after
	// it.
	handover = 30 * time.Second
)

func wire(ctx context.Context, p *host.Process) error {
	store, err := p.OpenViews(ctx, "billing", billing.Collections())
	if err != nil {
		return err
	}
	p.Grace = 2 * p.StopGrace // billing writes what is left in two steps
	cfg := billing.Configure(p.Settings)
	cfg.Installation = p.Belong(event.Billing, installation.ReadModel("billing", store), installation.Blobs(p.Blobs, true)).ID
	var membership *members.Member
	if cfg.Partitions == nil { // else they are configured
		membership = p.Join(members.Config{PerPartition: replicas, Handover: handover})
		cfg.Assigned, cfg.Served = membership.Assigned(), membership.Serving
		cfg.Instance, cfg.Live = membership.Instance(), membership.Live
	}
	service, err := billing.New(cfg, billing.Deps{
		NC: p.NC, Views: store, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics, Traces: p.Traces.Scope("billing"),
	})
	if err != nil {
		return err
	}
	if membership == nil {
		p.Add("billing", service)
	} else {
		p.AddShared("billing", service, membership)
	}
	return nil
}
