// Command archive runs one instance of the service that keeps the log of the billing journals.
package main

import (
	"context"
	"os"

	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/services/archive"
)

func main() { os.Exit(host.Main(host.Archive, wire)) }

func wire(_ context.Context, p *host.Process) error {
	cfg := archive.Configure(p.Settings)
	cfg.Installation = p.Belong(event.Billing, installation.Blobs(p.Blobs, false)).ID
	service, err := archive.New(cfg, archive.Deps{NC: p.NC, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics})
	if err != nil {
		return err
	}
	p.Add("archive", service)
	return nil
}
