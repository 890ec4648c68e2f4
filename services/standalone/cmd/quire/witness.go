package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/telemetry"
	"quire.dev/pkg/witness"
)

// witnessCommand is the command `witness` with its subcommand. It reads no settings: a witness is run by somebody else than the
// Quire whose log it watches.
func (c *command) witnessCommand() *cobra.Command {
	var config witness.Config
	listen := ""
	cmd := &cobra.Command{
		Use: "witness --data <folder> --log <verifier key>", Short: "Cosign the checkpoints of transparency logs, so that they can't show two histories", Args: cli.None,
		Long: `Cosigns the checkpoints of transparency logs that continue the one cosigned before, so that a log's operator can't show two
histories. Run it on a machine that the logs' operator does not control. It needs nothing but its folder.

The first start creates the witness's key in the folder. Everyone who verifies its cosignatures needs the verifier key that
each start prints. Never start a witness from an old copy of its folder: it has forgotten what it has cosigned since, and
cosigns a second history. docs/witness.md has the rest.`,
		Example: `  quire witness --data /var/lib/quire-witness --name witness.example/w1 --log 'quire.example/log+dd813395+AX…'
  quire witness key --data /var/lib/quire-witness`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if config.Folder == "" || len(config.Logs) == 0 {
				return cli.Usage("witness: set --data to the witness's folder, and --log to the verifier key of a log")
			}
			return c.witness(cmd.Context(), config, listen)
		},
	}
	cmd.PersistentFlags().StringVar(&config.Folder, "data", "", "folder with the witness's key and what it has cosigned")
	cmd.Flags().StringArrayVar(&config.Logs, "log", nil, "verifier key of a log, name+hash+base64; repeat the flag for several")
	cmd.Flags().StringVar(&config.Name, "name", "", "name of a new witness, such as witness.example/w1; the host's name is the default")
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8085", "address to listen on, for HTTP")
	cmd.AddCommand(&cobra.Command{
		Use: "key --data <folder>", Short: "Print the verifier key of a witness", Args: cli.None,
		RunE: func(*cobra.Command, []string) error {
			if config.Folder == "" {
				return cli.Usage("witness key: set --data to the witness's folder")
			}
			verifier, err := witness.ReadKey(config.Folder)
			if err != nil {
				return fmt.Errorf("witness key: %w", err)
			}
			fmt.Fprintln(c.stdout, verifier)
			return nil
		},
	})
	return cmd
}

// witness runs a witness until ctx ends.
func (c *command) witness(ctx context.Context, config witness.Config, listen string) (err error) {
	config.Logger = telemetry.NewLogger(c.stderr, telemetry.LogConfig{Service: "witness", Text: true})
	if config.Name, err = witnessName(config); err != nil {
		return fmt.Errorf("witness: %w", err)
	}
	// First, so that nothing is created if the address is in use.
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("witness: --listen: %w", err)
	}
	server, err := witness.Open(config)
	if err != nil {
		return errors.Join(fmt.Errorf("witness: %w", err), listener.Close())
	}
	if server.Created() {
		fmt.Fprintf(c.stdout, "created a key in %s\n", config.Folder)
	}
	fmt.Fprintf(c.stdout, "verifier key: %s\nquire %s: witness listens on http://%s\n", server.VerifierKey(), version, listener.Addr())
	return errors.Join(server.Serve(ctx, listener), server.Close())
}

// witnessName is the name for a new witness. One that exists has a name, and nothing to choose.
func witnessName(config witness.Config) (string, error) {
	if config.Name != "" {
		return config.Name, nil
	}
	_, err := witness.ReadKey(config.Folder)
	if !errors.Is(err, witness.ErrNoKey) {
		return "", nil // Open reports the error, if any
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("set --name: %w", err)
	}
	return host + "/witness", nil
}
