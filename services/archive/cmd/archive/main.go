// Command archive runs one instance of the service that keeps the log of the billing journals.
package main

import (
	"context"
	"os"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/event"
	"quire.dev/pkg/host"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/rpc"
	"quire.dev/services/archive"
)

func main() { os.Exit(host.Main(host.Archive, wire)) }

func wire(_ context.Context, p *host.Process) error {
	cfg := archive.Configure(p.Settings)
	cfg.Installation = p.Belong(event.Billing, installation.Blobs(p.Blobs, false)).ID
	deps := archive.Deps{NC: p.NC, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics}
	if p.RetentionNATSURL != "" {
		deps.Deleting = func() (*nats.Conn, error) { return rpc.ConnectOnce(p.RetentionNATSURL, "retention") }
	}
	service, err := archive.New(cfg, deps)
	if err != nil {
		return err
	}
	p.Add("archive", service)
	return nil
}
