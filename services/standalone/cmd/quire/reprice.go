package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
	"quire.dev/services/standalone"
)

// shownRepriced is how many accounts are printed.
const shownRepriced = 20

// repriceCommand is the command `reprice`.
func (c *command) repriceCommand() *cobra.Command {
	var month, prices string
	asJSON := false
	cmd := &cobra.Command{
		Use: "reprice --prices <file> --month <month>", Short: "Compute the bills of a month by another price book", Args: cli.None,
		Long: `Replays the billing journals twice: as they were, and with another price book in force from the start of the month on, which decides
about the same requests anew. It prints what accounts would have been charged and how many requests would have been refused.
Requests that only the other book admits count as served. It reads the journals of the installation that the settings name,
beside traffic, or of a data folder that no process uses, and changes nothing. The document is that of "quire prices apply".`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if month == "" || prices == "" {
				return cli.Usage("--prices and --month are required, such as --prices book.json --month 2026-11")
			}
			return wrap("reprice", c.reprice(cmd.Context(), month, prices, asJSON))
		},
	}
	cmd.Flags().StringVar(&prices, "prices", "", "file with the other price book")
	cmd.Flags().StringVar(&month, "month", "", "month, such as 2026-11")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print every account, as JSON")
	return cmd
}

func (c *command) reprice(ctx context.Context, month, prices string, asJSON bool) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	if standalone.IsEmbedded(cfg) && !standalone.HasData(cfg.Data) {
		return fmt.Errorf("%s holds no data", cfg.Data)
	}
	document, err := os.ReadFile(prices)
	if err != nil {
		return err
	}
	list, err := standalone.Reprice(ctx, cfg, standalone.Deps{Logger: log, Progress: c.progress()}, month, document)
	if err != nil {
		return err
	}
	if asJSON {
		return writeRepriced(c.stdout, month, list)
	}
	printRepriced(c.stdout, month, list)
	return nil
}

// sum adds up bills.
func sum(list []billing.Repriced, of func(billing.Repriced) billing.Bill) (total billing.Bill) {
	for _, r := range list {
		b := of(r)
		total.Requests += b.Requests
		total.Refused += b.Refused
		total.SpentMicros += b.SpentMicros
		total.SpentCents += b.SpentCents
		total.FeesCents += b.FeesCents
		total.StorageCents += b.StorageCents
	}
	return total
}

func was(r billing.Repriced) billing.Bill     { return r.Was }
func wouldBe(r billing.Repriced) billing.Bill { return r.WouldBe }

// difference is how much more an account would have been charged, in cents.
func difference(r billing.Repriced) int64 { return int64(r.WouldBe.Cents()) - int64(r.Was.Cents()) }

func printRepriced(to io.Writer, month string, list []billing.Repriced) {
	changed := slices.DeleteFunc(slices.Clone(list), func(r billing.Repriced) bool { return r.Was == r.WouldBe })
	slices.SortStableFunc(changed, func(a, b billing.Repriced) int {
		return cmp.Compare(max(difference(b), -difference(b)), max(difference(a), -difference(a)))
	})
	fmt.Fprintf(to, "%s: %d of %d bills would differ.\n", month, len(changed), len(list))
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ACCOUNT\tPLAN\tBILL\tNEW BILL\tCREDITS\tNEW\tREQUESTS\tNEW\tREFUSED\tNEW\t")
	row := func(name, plan string, a, b billing.Bill) {
		fmt.Fprintf(table, "%s\t%s\t$%s\t$%s\t%s\t%s\t%d\t%d\t%d\t%d\t\n", name, plan, dollars(a.Cents()), dollars(b.Cents()),
			credits(a), credits(b), a.Requests, b.Requests, a.Refused, b.Refused)
	}
	for _, r := range changed[:min(len(changed), shownRepriced)] {
		row(r.Account.String(), r.WouldBe.Plan, r.Was, r.WouldBe)
	}
	row("all", "", sum(list, was), sum(list, wouldBe))
	_ = table.Flush() // as with fmt.Fprint
	if more := len(changed) - shownRepriced; more > 0 {
		fmt.Fprintf(to, "and %d more: --json prints all\n", more)
	}
}

func dollars(cents uint64) string { return plan.Dollars(cents) }

func credits(b billing.Bill) string { return plan.Micros(b.SpentMicros).String() }

// billView is a bill in JSON.
type billView struct {
	Plan     string `json:"plan,omitempty"`
	Requests uint64 `json:"requests"`
	Refused  uint64 `json:"refused"`
	Credits  string `json:"credits"`
	Spent    string `json:"creditsUsd"`
	Fees     string `json:"feesUsd"`
	Storage  string `json:"storageUsd"`
	Total    string `json:"totalUsd"`
}

func viewBill(b billing.Bill) billView {
	return billView{b.Plan, b.Requests, b.Refused, credits(b), dollars(b.SpentCents), dollars(b.FeesCents), dollars(b.StorageCents), dollars(b.Cents())}
}

type repricedView struct {
	Account string   `json:"account,omitempty"`
	Was     billView `json:"was"`
	WouldBe billView `json:"wouldBe"`
}

func writeRepriced(to io.Writer, month string, list []billing.Repriced) error {
	out := struct {
		Month    string         `json:"month"`
		Sum      repricedView   `json:"sum"`
		Accounts []repricedView `json:"accounts"`
	}{month, repricedView{Was: viewBill(sum(list, was)), WouldBe: viewBill(sum(list, wouldBe))}, []repricedView{}}
	for _, r := range list {
		out.Accounts = append(out.Accounts, repricedView{r.Account.String(), viewBill(r.Was), viewBill(r.WouldBe)})
	}
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}
