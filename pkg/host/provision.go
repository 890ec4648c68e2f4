package host

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/installation"
	"quire.dev/pkg/lifecycle"
	"quire.dev/pkg/rpc"
)

// MainProvision is the main function of the job that creates and upgrades the journals of all services and the bucket of their
// members. It waits for the NATS servers, and ends. Its result is the exit status.
func MainProvision() int {
	return provisioning(func(ctx context.Context, nc *nats.Conn, p Settings, log *slog.Logger) error {
		if err := installation.Provision(ctx, nc, installation.Config{Partitions: p.Partitions, Replicas: p.Replicas, Members: true}); err != nil {
			return fmt.Errorf("provision: %w", err)
		}
		log.Info("the journals are up to date", "partitions", p.Partitions, "replicas", p.Replicas)
		return nil
	})
}

// MainGenerations is the main function of the job that closes the generations of the billing journals that are due, and ends. Its result
// is the exit status.
func MainGenerations() int {
	return provisioning(func(ctx context.Context, nc *nats.Conn, p Settings, log *slog.Logger) error {
		g := p.Generations()
		if !g.Enabled() {
			log.Warn("no generation is ever closed: neither QUIRE_GENERATION_BYTES nor QUIRE_GENERATION_AGE is set")
		}
		return installation.CloseGenerations(ctx, nc, installation.Config{Partitions: p.Partitions, Replicas: p.Replicas}, g, log)
	})
}

// Generations is when generations of the billing journals are closed, and by another process than the one that deletes them.
func (s *Settings) Generations() installation.Generations {
	return installation.Generations{Bytes: s.GenerationBytes, Age: s.GenerationAge, Apart: installation.Apart}
}

// provisioning runs a job with the settings and the user of provisioning.
func provisioning(run func(context.Context, *nats.Conn, Settings, *slog.Logger) error) int {
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
		return run(ctx, nc, p, log)
	})
}
