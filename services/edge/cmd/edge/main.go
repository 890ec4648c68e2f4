// Command edge runs one edge of a cluster.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"quire.dev/pkg/host"
	"quire.dev/pkg/rpc"
	"quire.dev/services/edge"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == edge.RenderArgument {
		if err := edge.Render(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "edge: render: %v\n", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(host.Main(host.Edge, wire))
}

func wire(ctx context.Context, p *host.Process) error {
	if err := rpc.WaitConnected(ctx, p.NC); err != nil { // the server says how large a message may be
		return err
	}
	renderCommand, err := edge.RenderCommand()
	if err != nil {
		return err
	}
	service, err := edge.New(configure(p.Settings), edge.Deps{
		NC: p.NC, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics, Health: p.Health, Ops: p.OpsOnAPI(), RenderCommand: renderCommand,
	})
	if err != nil {
		return err
	}
	p.Grace = p.StopGrace + storing
	p.Add("edge", service)
	return nil
}

// storing is the time that an edge gets at a stop to store what still waits, once its requests have ended.
const storing = 30 * time.Second

func configure(s host.Settings) edge.Config {
	return edge.Config{
		Listen: s.Listen, PublicURL: s.PublicURL, UpgradeURL: s.UpgradeURL, ContentURL: s.ContentURL,
		Secret: []byte(s.Secret.Reveal()), AlsoSecrets: s.SecretPrevious.Bytes(), AdminToken: s.AdminToken.Reveal(), AdminListen: s.AdminListen,
		TrustedProxies: s.TrustedProxies, Partitions: s.Partitions, AskPartitions: true, ClockOffset: s.ClockOffset,
		MaxConns: s.MaxConns, MaxConnsPerSource: s.MaxConnsPerSource, RenderBytes: s.RenderBytes, StopGrace: s.StopGrace,
		UnmeteredRate: s.UnmeteredRate,
	}
}
