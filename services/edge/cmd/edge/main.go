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
	if err := rpc.WaitConnected(ctx, p.NC); err != nil { // the server tells its maximum message size
		return err
	}
	renderCommand, err := edge.RenderCommand()
	if err != nil {
		return err
	}
	service, err := edge.New(edge.Configure(p.Settings), edge.Deps{
		NC: p.NC, Blobs: p.Blobs, Logger: p.Log, Metrics: p.Metrics, Health: p.Health, Ops: p.OpsOnAPI(), RenderCommand: renderCommand,
		AccessLog: os.Stderr, Traces: p.Traces.Scope("edge"),
	})
	if err != nil {
		return err
	}
	p.Grace = p.StopGrace + storing
	p.Add("edge", service)
	return nil
}

// storing is how long a stopping edge may take to store pending messages, once its requests have ended.
const storing = 30 * time.Second
