package host

import (
	"context"
	"fmt"
	"os"

	"quire.dev/pkg/installation"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/rpc"
)

// MainProvision is the main function of the job that creates and upgrades the journals of all services and the bucket of their
// members. It waits for the NATS servers, and ends. Its result is the exit status.
func MainProvision() int {
	return lifecycle.Main(func(ctx context.Context) error {
		p, err := ReadSettings(Provision, os.Environ())
		if err != nil {
			return err
		}
		log := p.Logger(Provision, os.Stderr)
		nc, err := rpc.Connect(p.NATSURL, Provision.String(), log)
		if err != nil {
			return err
		}
		defer nc.Close()
		if err := installation.Provision(ctx, nc, installation.Config{Partitions: p.Partitions, Replicas: p.Replicas, Members: true}); err != nil {
			return fmt.Errorf("provision: %w", err)
		}
		log.Info("the journals are up to date", "partitions", p.Partitions, "replicas", p.Replicas)
		return nil
	})
}
