package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/admin"
)

// auditCommand is the command `audit`.
func (c *command) auditCommand() *cobra.Command {
	var o admin.AuditOptions
	partition, head := -1, ""
	cmd := &cobra.Command{
		Use: "audit [--head <file>]", Short: "Replay the billing journals and compare", Args: cli.None,
		Long: `Replays the billing journals from the first message, and compares the result with the live state, every row of the read
model and the newest snapshots. It runs while the service handles requests. The first differences are listed.

With --new it begins with the newest snapshot that a complete audit has compared, and compares what is new since.

If the services restart, the audit resumes. If this command is interrupted, resume with the id that it printed (--resume) and the same
other flags, within 23 hours. Keep the id secret until then.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Partition = partitionName(partition)
			return c.audit(cmd.Context(), o, head)
		},
	}
	addScope(cmd, &o, &partition)
	cmd.Flags().Uint64Var(&o.Until, "until", 0, "replay up to this message of a journal and print its hash")
	cmd.Flags().BoolVar(&o.Deep, "deep", false, "compare every snapshot, not only the newest three")
	cmd.Flags().BoolVar(&o.New, "new", false, "compare what is new since the last complete audit that matched")
	cmd.Flags().StringVar(&o.Resume, "resume", "", "resume the interrupted audit with this id")
	cmd.Flags().StringVar(&head, "head", "", "file with the journals' heads: compared if it exists, else written. Keep it where nobody can edit both it and the journals")
	return cmd
}

func addScope(cmd *cobra.Command, o *admin.AuditOptions, partition *int) {
	cmd.Flags().StringVar(&o.Account, "account", "", "only this account")
	cmd.Flags().IntVar(partition, "partition", -1, "only this partition")
}

func partitionName(n int) string {
	if n < 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func (c *command) audit(ctx context.Context, o admin.AuditOptions, head string) error {
	heads, err := c.readHeads(head)
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	o.Heads = heads
	if o.Resumable() {
		o.Begun = func(id string) {
			fmt.Fprintf(c.stderr, "If this command is interrupted: quire audit --resume %s, with the same other flags\n", id)
		}
	}
	var result admin.Audit
	err = c.withServer(ctx, func(ctx context.Context, api admin.Client) (err error) {
		if o.Resumable() {
			o.Resume = cmp.Or(result.ID, o.Resume)
		}
		result, err = c.auditing(ctx, func(ctx context.Context, progress func(done, total uint64)) (admin.Audit, error) {
			return api.Audit(ctx, o, progress)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	c.showAudit(result)
	if !*result.Match {
		return errors.New("audit: something differs from the journals")
	}
	if err := c.compareHeads(head, heads, result); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	fmt.Fprintln(c.stdout, "audit: everything matches")
	return nil
}

// auditing runs an audit or a repair, and shows its progress.
func (c *command) auditing(ctx context.Context, run func(context.Context, func(done, total uint64)) (admin.Audit, error)) (admin.Audit, error) {
	ctx, cancel := context.WithTimeout(ctx, auditTimeout)
	defer cancel()
	progress, stop := c.showProgress("auditing")
	defer stop()
	return run(ctx, progress)
}

func (c *command) showAudit(result admin.Audit) {
	for _, p := range result.Partitions {
		verdict := "matches"
		if !p.Match {
			verdict = "DIFFERS"
		}
		fmt.Fprintf(c.stdout, "partition %d: %s; %d entries, up to sequence %d\n", p.Partition, verdict, p.Entries, p.LastSequence)
		if p.FromSequence != 0 {
			fmt.Fprintf(c.stdout, "  new since sequence %d, which was audited\n", p.FromSequence)
		}
		if p.LiveHash != "" {
			fmt.Fprintf(c.stdout, "  live   %s\n", p.LiveHash)
		}
		if p.ReplayHash != "" {
			fmt.Fprintf(c.stdout, "  replay %s\n", p.ReplayHash)
		}
		if p.ComparedSequence != 0 {
			fmt.Fprintf(c.stdout, "  read model at sequence %d\n", p.ComparedSequence)
		}
		for _, t := range p.Tables {
			fmt.Fprintf(c.stdout, "  %s: %d rows, %s%d differ%s\n", t.Table, t.Rows, atLeast(t), t.Differences, repaired(t))
		}
		for _, l := range p.Losses {
			fmt.Fprintf(c.stdout, "  journal %s has lost its messages %d to %d, accepted by %s at %s\n", l.Journal, l.First, l.Last, l.AcceptedBy, l.AcceptedAt)
		}
		for _, d := range p.Differences {
			fmt.Fprintf(c.stdout, "  %s\n", sentence(d))
		}
	}
}

func atLeast(t admin.AuditTable) string {
	if t.More {
		return "at least "
	}
	return ""
}

func repaired(t admin.AuditTable) string {
	if t.Repaired == 0 {
		return ""
	}
	return fmt.Sprintf(", %d repaired", t.Repaired)
}

// sentence is a difference in words.
func sentence(d admin.AuditDifference) string {
	var at []string
	for _, part := range []struct{ what, value string }{{"", d.Table}, {"account ", d.Account}, {"row ", d.Row}, {"field ", d.Field}} {
		if part.value != "" {
			at = append(at, part.what+part.value)
		}
	}
	return fmt.Sprintf("%s: expected %s, found %s", strings.Join(at, ", "), d.Expected, d.Found)
}

func (c *command) repair(ctx context.Context, table string, o admin.AuditOptions, yes bool) error {
	err := c.withServer(ctx, func(ctx context.Context, api admin.Client) error {
		before, err := c.auditing(ctx, func(ctx context.Context, progress func(done, total uint64)) (admin.Audit, error) {
			return api.Audit(ctx, o, progress)
		})
		if err != nil {
			return err
		}
		c.showAudit(before)
		damaged := differing(before, table)
		if damaged == 0 {
			fmt.Fprintf(c.stdout, "repair: %s matches the journals\n", table)
			return nil
		}
		if !yes {
			yes, err := cli.Confirm(ctx, c.streams(), fmt.Sprintf("Rewrite %d rows of %s from the journals?", damaged, table))
			if err != nil {
				return err
			}
			if !yes {
				fmt.Fprintln(c.stderr, "Nothing was changed.")
				return nil
			}
		}
		result, err := c.auditing(ctx, func(ctx context.Context, progress func(done, total uint64)) (admin.Audit, error) {
			return api.Repair(ctx, table, o, progress)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(c.stdout, "repair: %d rows of %s were rewritten or deleted\n", repairedRows(result, table), table)
		after, err := c.auditing(ctx, func(ctx context.Context, progress func(done, total uint64)) (admin.Audit, error) {
			return api.Audit(ctx, o, progress)
		})
		if err != nil {
			return err
		}
		if left := differing(after, table); left > 0 {
			c.showAudit(after)
			return fmt.Errorf("%d rows of %s still differ", left, table)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("repair: %w", err)
	}
	return nil
}

func differing(result admin.Audit, table string) (rows uint64) {
	for _, p := range result.Partitions {
		for _, t := range p.Tables {
			if t.Table == table {
				rows += t.Differences
			}
		}
	}
	return rows
}

func repairedRows(result admin.Audit, table string) (rows uint64) {
	for _, p := range result.Partitions {
		for _, t := range p.Tables {
			if t.Table == table {
				rows += t.Repaired
			}
		}
	}
	return rows
}
