package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/admin"
	"quire.dev/pkg/document"
	"quire.dev/pkg/event"
	"quire.dev/services/archive"
	"quire.dev/services/billing"
	"quire.dev/services/standalone"
)

// repairCommand is the command `repair` with its subcommands.
func (c *command) repairCommand() *cobra.Command {
	var o admin.AuditOptions
	table, yes, partition := "", false, -1
	cmd := &cobra.Command{
		Use: "repair --table <table> | snapshots | read-model | accept-gap | accept-missing | log", Short: "Rewrite a damaged table from the journal, or fix a refused start",
		Long: `With --table: runs an audit, shows how a table differs from the journal, asks for confirmation, and rewrites the rows that
differ. Rows that the journal does not have are deleted. Tables: ledger, days, statements, events, adminLog, and snapshots,
which are deleted if they differ.

The subcommands are for a quire that refuses to start. Run them while it is stopped: on QUIRE_DATA, or on the servers in the
settings, with the URLs of the service. Each shows what it would do, and does it with --yes.`,
		Args: cli.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(admin.RepairTables(), table) {
				return cli.Usage("--table must be one of %s", strings.Join(admin.RepairTables(), ", "))
			}
			o.Partition = partitionName(partition)
			return c.repair(cmd.Context(), table, o, yes)
		},
	}
	addScope(cmd, &o, &partition)
	cmd.Flags().StringVar(&table, "table", "", "ledger, days, statements, events, adminLog or snapshots")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	cmd.AddCommand(c.repairSnapshots(), c.repairModel(), c.repairGap(), c.repairMissing(), c.repairLog())
	return cmd
}

// repairSnapshots is the command `repair snapshots`.
func (c *command) repairSnapshots() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "snapshots", Short: "Move aside billing snapshots that do not fit the journal", Args: cli.None,
		Long: `Finds the snapshots of billing that are from after the end of its journal, or were taken at a message that the journal doesn't
have: the bucket is newer than the journal. Billing refuses to start with them. They are moved to billing/aside in the blob
store. The next start folds more of the journal.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.onStopped(cmd.Context(), event.Billing, standalone.RepairOptions{}, func(ctx context.Context, s standalone.Stores) error {
				deps := billing.Deps{NC: s.NC, Shared: s.Shared, Views: s.Views, Blobs: s.Blobs}
				positions, err := billing.Positions(ctx, deps, s.Partitions)
				if err != nil {
					return err
				}
				list, err := billing.UnfitSnapshots(ctx, deps, positions)
				if err != nil {
					return err
				}
				if len(list) == 0 {
					fmt.Fprintln(c.stdout, "Every snapshot fits the journals. Nothing to do.")
					return nil
				}
				for _, one := range list {
					fmt.Fprintf(c.stdout, "%s was taken at message %d, and %s\n", one.Key, one.Sequence, one.Why)
				}
				if !yes {
					fmt.Fprintf(c.stdout, "Snapshots to move below billing/aside: %d. Nothing was changed: do it with --yes.\n", len(list))
					return nil
				}
				for _, one := range list {
					key, err := one.SetAside(ctx, deps)
					if err != nil {
						return err
					}
					fmt.Fprintf(c.stdout, "moved to %s\n", key)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "move them, instead of only listing them")
	return cmd
}

// repairModel is the command `repair read-model`.
func (c *command) repairModel() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "read-model", Short: "Have billing make again what its read model has from the journals", Args: cli.None,
		Long: `For a billing whose read model is newer than its journals, or was made from other ones, and which refuses to start. The ledger,
statements, usage by day, requests, events and the log of admin actions are set aside, and the next start makes them again
from the journals. Users, sessions, webhooks and deliveries stay. Methods, paths and addresses of requests, and requests that
billing did not decide, are in no journal: they are only among what is set aside. Snapshots that don't fit are moved too.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.onStopped(cmd.Context(), event.Billing, standalone.RepairOptions{}, func(ctx context.Context, s standalone.Stores) error {
				deps := billing.Deps{NC: s.NC, Shared: s.Shared, Views: s.Views, Blobs: s.Blobs}
				list, err := billing.Positions(ctx, deps, s.Partitions)
				if err != nil {
					return err
				}
				for _, at := range list {
					fmt.Fprintf(c.stdout, "%s ends at message %d, and the read model was written up to message %d\n", at.Stream, at.Journal, at.Model)
				}
				fmt.Fprintf(c.stdout, "To set aside and make again: %s\n", strings.Join(billing.Remade(), ", "))
				if !yes {
					fmt.Fprintln(c.stdout, "Nothing was changed: do it with --yes.")
					return nil
				}
				name, err := billing.ResetReadModel(ctx, deps, list)
				if err != nil {
					return err
				}
				fmt.Fprintf(c.stdout, "set aside under names that begin with aside and %s\n", name)
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

// repairGap is the command `repair accept-gap`.
func (c *command) repairGap() *cobra.Command {
	yes, service, by := false, "", ""
	cmd := &cobra.Command{
		Use: "accept-gap --service paste|lite|file", Short: "Record what a journal of documents has lost, and let its service go on", Args: cli.None,
		Long: `For a service whose journal and read model don't meet, and who refuses to start. The journal begins after the read model's end: the
changes between are lost. Or it ends before: the read model has them. The loss is recorded in billing's journals, for audits, explanations and
the log of admin actions, and the service goes on behind it. Restore a backup instead if there is one that closes the gap.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			domain := event.Domain(service)
			if !slices.Contains(event.Documents(), domain) {
				return cli.Usage("--service must be paste, lite or file")
			}
			if err := checkActor(by); err != nil {
				return err
			}
			o := standalone.RepairOptions{Recreate: yes}
			return c.onStopped(cmd.Context(), domain, o, func(ctx context.Context, s standalone.Stores) error { return c.acceptGaps(ctx, s, by, yes) })
		},
	}
	cmd.Flags().StringVar(&service, "service", "", "whose journal it is: paste, lite or file")
	cmd.Flags().StringVar(&by, "by", os.Getenv("USER"), "your name, for the log of admin actions")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	_ = cmd.RegisterFlagCompletionFunc("service", cobra.FixedCompletions([]string{"paste", "lite", "file"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

const maxNameBytes = 100

func (c *command) acceptGaps(ctx context.Context, s standalone.Stores, by string, yes bool) error {
	if s.Views == nil {
		fmt.Fprintf(c.stdout, "The read model of %s is missing: an empty one, and then what its journal has\n", s.Service)
	}
	losses, err := document.FindLosses(ctx, s.NC, s.Views, s.Service, s.Partitions)
	if err != nil {
		return err
	}
	for _, loss := range losses {
		fmt.Fprintf(c.stdout, "%s has lost its messages %d to %d. ", loss.Stream, loss.First, loss.Last)
		if loss.Projected {
			fmt.Fprintln(c.stdout, "The read model has what they changed. The journal continues after them, without what it has before.")
		} else {
			fmt.Fprintln(c.stdout, "What they changed is lost. The service continues after them.")
		}
		if !yes {
			continue
		}
		if err := loss.Accept(ctx, s.NC, s.Views, s.Partitions, by); err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "recorded in billing's journals as accepted by %s\n", by)
	}
	switch {
	case s.Views != nil && len(losses) == 0:
		fmt.Fprintf(c.stdout, "Every journal of %s meets its read model. Nothing to do.\n", s.Service)
	case !yes:
		fmt.Fprintln(c.stdout, "Nothing was changed: do it with --yes.")
	}
	return nil
}

// repairMissing is the command `repair accept-missing`.
func (c *command) repairMissing() *cobra.Command {
	yes, by := false, ""
	cmd := &cobra.Command{
		Use: "accept-missing", Short: "Give up users and addresses of webhooks that no backup brings back", Args: cli.None,
		Long: `For a billing whose read model has lost users or addresses of webhooks, which exist nowhere else (the alert QuireReadModelLost).
Until they are restored, log-ins that find nobody and new users are 503. Without a backup, this gives up those that are
missing now: their email addresses can be registered again, for new accounts. The old accounts stay, with their API keys. A webhook
without an address notifies nobody: its holder deletes it and creates it again. A later loss of others is noticed as before.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkActor(by); err != nil {
				return err
			}
			return c.onStopped(cmd.Context(), event.Billing, standalone.RepairOptions{}, func(ctx context.Context, s standalone.Stores) error {
				return c.acceptMissing(ctx, s, by, yes)
			})
		},
	}
	cmd.Flags().StringVar(&by, "by", os.Getenv("USER"), "your name, for the log")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

func (c *command) acceptMissing(ctx context.Context, s standalone.Stores, by string, yes bool) error {
	deps, found := billing.Deps{Views: s.Views}, false
	for p := range s.Partitions {
		missing, err := billing.MissingIn(ctx, deps, p)
		if err != nil {
			return err
		}
		if missing == (billing.Missing{}) {
			continue
		}
		found = true
		fmt.Fprintf(c.stdout, "partition %d: %d users and %d addresses of webhooks are missing, or more\n", p, missing.Users, missing.Addresses)
		if !yes {
			continue
		}
		if err := billing.GiveUpMissing(ctx, deps, p, by); err != nil {
			return err
		}
	}
	switch {
	case !found:
		fmt.Fprintln(c.stdout, "Billing knows of nothing that is missing. Nothing to do.")
	case !yes:
		fmt.Fprintln(c.stdout, "Nothing was changed: do it with --yes.")
	default:
		fmt.Fprintln(c.stdout, "Billing gives them up at its next start. An instance that runs does so within a minute.")
	}
	return nil
}

// checkActor checks the name of who accepts a loss.
func checkActor(by string) error {
	if by == "" || len(by) > maxNameBytes {
		return cli.Usage("--by must be your name, for the log: 1 to %d bytes", maxNameBytes)
	}
	return nil
}

// repairLog is the command `repair log`.
func (c *command) repairLog() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "log", Short: "Have the log go on with billing journals that were restored from a backup", Args: cli.None,
		Long: `For a log that does not grow because a billing journal lacks messages which the log has, or has others in their place. The log
records which messages are lost, where everybody sees it, and goes on with what the journals have. Archived segments with lost
messages are moved to archive/aside in the blob store. In a cluster, stop the archive, and use its users of NATS and of the bucket.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.onStopped(cmd.Context(), event.Billing, standalone.RepairOptions{Unviewed: true, User: "archive"}, func(ctx context.Context, s standalone.Stores) error {
				cfg := archive.Config{PartitionCount: s.Partitions, Installation: func() string { return s.Installation }}
				deps := archive.Deps{NC: s.NC, Shared: s.Shared, Blobs: s.Blobs}
				list, err := archive.FindRewound(ctx, cfg, deps)
				if err != nil {
					return err
				}
				if len(list) == 0 {
					fmt.Fprintln(c.stdout, "The log fits the journals. Nothing to do.")
					return nil
				}
				for _, one := range list {
					fmt.Fprintln(c.stdout, one.String())
				}
				if !yes {
					fmt.Fprintln(c.stdout, "Nothing was changed: do it with --yes.")
					return nil
				}
				if err := archive.AcceptRewound(ctx, cfg, deps, list); err != nil {
					return err
				}
				fmt.Fprintln(c.stdout, "recorded; the next checkpoint of the log has it")
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	return cmd
}

// onStopped calls use with the stores of a service that does not run.
func (c *command) onStopped(ctx context.Context, service event.Domain, o standalone.RepairOptions, use func(context.Context, standalone.Stores) error) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	if cfg.NATSURL == "" && !standalone.HasData(cfg.Data) {
		return fmt.Errorf("repair: %s holds no data: set QUIRE_DATA, or QUIRE_NATS_URL and the other URLs of %s", cfg.Data, service)
	}
	q, err := standalone.New(cfg, standalone.Deps{Logger: log, Progress: c.progress()})
	if err != nil {
		return err
	}
	if err := q.Repair(ctx, service, o, use); err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	return nil
}
