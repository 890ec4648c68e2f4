package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/num"
	"quire.dev/services/standalone"
	"quire.dev/services/standalone/internal/export"
)

// journalCommand is the command `journal` with its subcommand.
func (c *command) journalCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "journal", Short: "Export the billing journals for other programs", Args: cli.None, RunE: func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}}
	to, partition, books := "", -1, false
	exports := &cobra.Command{
		Use: "export --to <folder>", Short: "Write every message of the billing journals to a folder", Args: cli.None,
		Long: `Writes the messages of each billing journal to a file of JSON lines, and a manifest with the number of messages and the head of the
chain. docs/journal.md specifies the files and how to compute every bill from them. It reads the journals of the installation
that the settings name, beside traffic, or of a data folder that no process uses, and changes nothing. The messages have no
names, addresses or content. The folder must be empty.

With --books it also writes the ledger, the closed statements and the state of each account as of the last message: the ledger and
the statements are those that people see, from billing's read model, and a program of yours can compare them with what it computes.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return cli.Usage("--to is required: an empty folder")
			}
			if cmd.Flags().Changed("partition") && partition < 0 {
				return cli.Usage("--partition must be 0 or higher")
			}
			return wrap("export", c.exportJournals(cmd.Context(), to, partition, books))
		},
	}
	exports.Flags().StringVar(&to, "to", "", "an empty folder")
	exports.Flags().IntVar(&partition, "partition", -1, "only this partition")
	exports.Flags().BoolVar(&books, "books", false, "also write what billing shows of each account")
	cmd.AddCommand(exports)
	return cmd
}

func (c *command) exportJournals(ctx context.Context, to string, partition int, books bool) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	if standalone.IsEmbedded(cfg) && !standalone.HasData(cfg.Data) {
		return fmt.Errorf("%s holds no data", cfg.Data)
	}
	progress := c.progress()
	m, err := standalone.ExportJournals(ctx, cfg, standalone.Deps{Logger: log, Progress: progress}, to, export.Options{
		Partition: partition, Version: version, Books: books,
		Progress: func(what string, done, total uint64) { progress(what, num.Int64(done), num.Int64(total)) },
	})
	if err != nil {
		return err
	}
	for _, j := range m.Journals {
		fmt.Fprintf(c.stdout, "%s: %d messages, %d bytes, chain %s\n", j.Stream, j.Messages, j.Bytes, j.Chain)
		if b := j.Books; b != nil {
			fmt.Fprintf(c.stdout, "%s: %d lines, %d bytes\n", b.File, b.Lines, b.Bytes)
		}
	}
	return nil
}
