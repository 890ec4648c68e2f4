package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/admin"
)

func (c *command) explainCommand() *cobra.Command {
	timing := false
	cmd := &cobra.Command{
		Use: "explain <request-id>", Short: "Show how a request of any account was charged, or why it was slow", Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.explain(cmd.Context(), args[0], timing); err != nil {
				return fmt.Errorf("explain: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&timing, "timing", false, "print a table of what the request waited for, longest first")
	return cmd
}

func (c *command) explain(ctx context.Context, requestID string, timing bool) error {
	var answer json.RawMessage
	err := c.withServer(ctx, func(ctx context.Context, api admin.Client) error {
		ctx, cancel := context.WithTimeout(ctx, auditTimeout)
		defer cancel()
		progress, stop := c.showProgress("explaining")
		defer stop()
		var err error
		answer, err = api.Explain(ctx, requestID, progress)
		return err
	})
	if err != nil {
		return err
	}
	if timing {
		var shown explained
		if err := json.Unmarshal(answer, &shown); err != nil {
			return err
		}
		shown.print(c.stdout)
		return nil
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, answer, "", "  "); err != nil {
		return err
	}
	fmt.Fprintln(c.stdout, pretty.String())
	return nil
}

// explained is the answer that explains a request.
type explained struct {
	Request struct {
		ID, QuotaKey, Account string
		Anonymous             bool
		Journal, SettledAt    journalPosition
	}
	Timing *requestTiming // nil: the request log can't be read
}

type journalPosition struct {
	Stream   string
	Sequence uint64
}

type requestTiming struct {
	StartedAt, AdmittedAt, SettledAt string
	DurationMs                       *uint64
	Parts                            map[string]uint64 // nil: not reported, or not slow
}

// A timedPart is a part of a request's time, by its name in the access log.
type timedPart struct{ name, lookAt string }

// timedParts returns the parts in the order in which most requests have them.
func timedParts() []timedPart {
	return []timedPart{
		{"bodyMs", "the client's network: it sent the body slowly"},
		{"admitQueueMs", "the other parts: the batch before was slow, for everyone"},
		{"admitSyncMs", "disks of the NATS servers, Raft's leaders of the billing journal"},
		{"admitFoldMs", "billing's CPU, quire_billing_state{of=\"projection_pending\"}"},
		{"readMs", "the read model of the document service; it runs beside the admission"},
		{"blobMs", "the bucket; for an upload also the client's network"},
		{"writeQueueMs", "the other parts: the batch before was slow, for everyone"},
		{"writeSyncMs", "disks of the NATS servers, Raft's leaders of the document's journal"},
		{"writeFoldMs", "CPU and read model of the document service, billing's journal"},
	}
}

func (e *explained) print(w io.Writer) {
	r, t := &e.Request, e.Timing
	of := "without an account"
	if !r.Anonymous {
		of = "of account " + r.Account
	}
	fmt.Fprintf(w, "%s: %s %s\n", r.ID, r.QuotaKey, of)
	switch {
	case t == nil:
		fmt.Fprintln(w, "Its time is unknown: the request log can't be read. See billing's /readyz and log, then try again.")
		return
	case t.DurationMs == nil && r.Anonymous:
		fmt.Fprintln(w, "Its duration is unknown: requests without an account are in no request log. The access log and traces have them.")
	case t.DurationMs == nil:
		fmt.Fprintln(w, `Its duration is unknown: the request log does not have it. Edges report a request within a second; the log keeps it for
QUIRE_REQUEST_RETENTION, and 10,000 requests of an account.`)
	case t.Parts == nil:
		fmt.Fprintf(w, "It took %d ms until the response began. Edges report the parts of requests of 20 ms and longer.\n", *t.DurationMs)
	default:
		fmt.Fprintf(w, "It took %d ms until the response began.\n\n", *t.DurationMs)
		printParts(w, t.Parts, *t.DurationMs)
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "started\t%s\tby the edge's clock\n", t.StartedAt)
	if t.AdmittedAt != "" {
		fmt.Fprintf(table, "admission stored\t%s\tby the clock of NATS, in message %d of %s\n", t.AdmittedAt, r.Journal.Sequence, r.Journal.Stream)
	}
	if t.SettledAt != "" {
		fmt.Fprintf(table, "settlement stored\t%s\tby the clock of NATS, in message %d of %s\n", t.SettledAt, r.SettledAt.Sequence, r.SettledAt.Stream)
	}
	_ = table.Flush() // as with fmt.Fprint
	fmt.Fprintln(w, "\nNext: \"A request was slow\" in docs/runbook.md")
}

// printParts prints the parts above 0 and what is left of the duration, longest first.
func printParts(w io.Writer, parts map[string]uint64, duration uint64) {
	type row struct {
		timedPart
		ms uint64
	}
	var rows []row
	var sum uint64
	for _, p := range timedParts() {
		if ms := parts[p.name]; ms > 0 {
			rows = append(rows, row{p, ms})
			sum += ms
		}
	}
	if sum < duration {
		rows = append(rows, row{timedPart{"rest", "the edge's CPU; password hashes"}, duration - sum})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(b.ms, a.ms) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "PART\t%6s\t%5s\tLOOK AT\n", "MS", "SHARE")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%6d\t%4.0f%%\t%s\n", r.name, r.ms, 100*float64(r.ms)/float64(max(duration, 1)), r.lookAt)
	}
	_ = table.Flush()
}
