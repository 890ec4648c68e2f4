package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/admin"
	"quire.dev/pkg/num"
	"quire.dev/services/standalone"
)

// backupCommand is the command `backup`.
func (c *command) backupCommand() *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use: "backup --to <place>", Short: "Back up everything while quire works", Args: cli.None,
		Long: `Copies the journals, the read models and the blobs of the installation that the settings name, beside traffic. Everything
acknowledged before the start is in the backup. Of what is written meanwhile, each request is in it with its charge, or
neither is.

The place is a folder, or s3://bucket/prefix. The server and the credentials of a bucket are read from AWS_ENDPOINT_URL,
AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. A place with an earlier backup, finished or interrupted, is brought up
to date, by what it doesn't have. The backup contains the secrets of the data folder and password hashes: keep it private.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usage("--to is required: a folder, or s3://bucket/prefix")
			}
			return wrap("backup", c.backUp(cmd.Context(), to))
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "a folder, or s3://bucket/prefix")
	from, scratch := "", ""
	verify := &cobra.Command{
		Use: "verify --from <place>", Short: "Restore a backup into a scratch folder and audit it", Args: cli.None,
		Long: `Checks every part of a backup, restores it into a folder that is deleted afterwards, starts quire on it and audits the books.
Nothing is sent to anybody. It needs as much room as a data folder.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return cli.Usage("--from is required: a folder, or s3://bucket/prefix")
			}
			return wrap("verify", c.verify(cmd.Context(), from, scratch))
		},
	}
	verify.Flags().StringVar(&from, "from", "", "a folder, or s3://bucket/prefix")
	verify.Flags().StringVar(&scratch, "scratch", "", "folder below which to restore (default: for temporary files)")
	cmd.AddCommand(verify)
	return cmd
}

// restoreCommand is the command `restore`.
func (c *command) restoreCommand() *cobra.Command {
	from, archived := "", ""
	cmd := &cobra.Command{
		Use: "restore --from <place> | --from-archive <place>", Short: "Restore a backup into an empty installation, or billing from its archive", Args: cli.None,
		Long: `With --from: fills the stores that the settings name from a backup. They must be empty: a data folder that does not exist, or servers
without data. Services may start afterwards, or be waiting already.

With --from-archive: for an installation without a backup. Makes the billing journals again from the archive's segments, in a blob
folder, such as data/blobs, or in a bucket. Every message is compared with the signed log first. Accounts, API keys, balances,
counters, statements and price books come back. Messages after the last segment are lost, and the command says which. Users, webhook
URLs and documents are in no archive. Set QUIRE_SECRET and QUIRE_CHECKPOINT_KEY to those of the installation. A data folder must be
missing or empty. Servers must have no billing journals, and may have other data of the installation.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case (from == "") == (archived == ""):
				return cli.Usage("--from or --from-archive is required: a folder, or s3://bucket/prefix")
			case archived != "":
				return wrap("restore", c.restoreArchived(cmd.Context(), archived))
			}
			return wrap("restore", c.restore(cmd.Context(), from))
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "a backup: a folder, or s3://bucket/prefix")
	cmd.Flags().StringVar(&archived, "from-archive", "", "blobs with an archive: a folder, or s3://bucket/prefix")
	return cmd
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (c *command) copies(place string, log *slog.Logger) standalone.Copies {
	progress := c.progress()
	return standalone.Copies{Place: place, Version: version, Logger: log, Progress: func(what string, done, total uint64) { progress(what, num.Int64(done), num.Int64(total)) }}
}

func (c *command) backUp(ctx context.Context, to string) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	copyNow := func(ctx context.Context) error {
		m, err := standalone.BackUp(ctx, cfg, c.copies(to, log))
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "backup: installation %s, with everything acknowledged before %s\n", m.Installation, m.Cut.Format(time.RFC3339))
		fmt.Fprintf(c.stdout, "%s: %d journals, %d read models, blobs: %d\n", to, len(m.Journals), len(m.Models), len(m.Blobs))
		return nil
	}
	if !standalone.IsEmbedded(cfg) {
		return copyNow(ctx)
	}
	running, err := standalone.IsRunning(cfg)
	if err != nil {
		return err
	}
	if running {
		return copyNow(ctx)
	}
	if !standalone.HasData(cfg.Data) {
		return fmt.Errorf("%s holds no data", cfg.Data)
	}
	alone := cfg
	alone.OpsListen = ""
	return c.whileAlone(ctx, alone, log, func(ctx context.Context, _ admin.Client) error { return copyNow(ctx) })
}

func (c *command) restore(ctx context.Context, from string) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	m, err := standalone.Restore(ctx, cfg, c.copies(from, log))
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "restore: installation %s, as of %s\n", m.Installation, m.Cut.Format(time.RFC3339))
	return nil
}

func (c *command) restoreArchived(ctx context.Context, from string) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	archived, ends, err := standalone.RestoreArchived(ctx, cfg, c.copies(from, log))
	if err != nil {
		return err
	}
	fmt.Fprintf(c.stdout, "restore: billing of installation %s, from its archive\n", archived.Installation)
	lost := false
	for _, end := range ends {
		fmt.Fprintln(c.stdout, end.String())
		lost = lost || end.Logged > end.Archived
	}
	switch {
	case archived.Tree == nil:
		fmt.Fprintln(c.stdout, "There is no log: nothing tells whether messages are lost, or segments were rewritten.")
	case lost:
		fmt.Fprintln(c.stdout, "The log has the lost messages: run `quire repair log`, and with --yes it records the loss.")
	}
	if archived.Tree != nil && cfg.CheckpointKey.Reveal() == "" {
		fmt.Fprintf(c.stdout, "The log was compared with the key in %s itself. Start the archive with QUIRE_CHECKPOINT_KEY of the installation.\n", from)
	}
	fmt.Fprintln(c.stdout, "Users and webhook URLs are missing until their tables are restored, or given up with `quire repair accept-missing`.")
	return nil
}

func (c *command) verify(ctx context.Context, from, scratch string) (err error) {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	below, err := os.MkdirTemp(scratch, "quire-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(below)) }()
	if cfg, err = standalone.RestoreScratch(ctx, cfg, filepath.Join(below, "data"), c.copies(from, log)); err != nil {
		return err
	}
	var result admin.Audit
	err = c.whileAlone(ctx, cfg, log, func(ctx context.Context, api admin.Client) error {
		result, err = c.auditing(ctx, func(ctx context.Context, progress func(done, total uint64)) (admin.Audit, error) {
			return api.Audit(ctx, admin.AuditOptions{Deep: true}, progress)
		})
		return err
	})
	if err != nil {
		return err
	}
	c.showAudit(result)
	if !*result.Match {
		return errors.New("the restored books differ from the restored journals")
	}
	fmt.Fprintf(c.stdout, "verify: %s can be restored, and everything in it matches\n", from)
	return nil
}
