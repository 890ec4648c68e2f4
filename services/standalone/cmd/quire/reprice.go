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
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
	"quire.dev/services/standalone"
)

const (
	shownRepriced = 20       // accounts in a table
	maxBook       = 64 << 10 // bytes, as the admin API takes it
)

// repriceCommand is the command `reprice`.
func (c *command) repriceCommand() *cobra.Command {
	var month, prices string
	asJSON := false
	cmd := &cobra.Command{
		Use: "reprice --prices <file> --month <month>", Short: "Compute the bills of a month by another price book", Args: cli.None,
		Long: `Replays the billing journals twice: as they were, and with another price book in force from the start of the month on, which decides
about the same requests anew. It prints what accounts would have been charged and how many requests would have been refused.
A request that only the other book admits counts as served. It reads the journals of the installation that the settings name,
beside traffic, or of a data folder that no process uses, and changes nothing. The file is one that "quire prices apply" takes.`,
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
	switch {
	case err != nil:
		return err
	case !json.Valid(document) || len(document) > maxBook:
		return fmt.Errorf("%s is not JSON of at most %d KB", prices, maxBook>>10)
	}
	if _, err := time.Parse("2006-01", month); err != nil {
		return cli.Usage("--month must be a month such as 2026-11")
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

// total adds up all accounts.
func total(list []billing.Repriced) (all billing.Repriced) {
	for _, r := range list {
		all.Was, all.WouldBe = plus(all.Was, r.Was), plus(all.WouldBe, r.WouldBe)
	}
	return all
}

// plus is the sum of two bills, of no plan.
func plus(a, b billing.Bill) billing.Bill {
	return billing.Bill{
		Requests: a.Requests + b.Requests, Refused: a.Refused + b.Refused, SpentMicros: a.SpentMicros + b.SpentMicros,
		SpentCents: a.SpentCents + b.SpentCents, FeesCents: a.FeesCents + b.FeesCents, StorageCents: a.StorageCents + b.StorageCents,
	}
}

// difference is how much more an account would have been charged, in cents.
func difference(r billing.Repriced) int64 {
	return num.Int64(r.WouldBe.Cents()) - num.Int64(r.Was.Cents())
}

// moreRefused is how many more of an account's requests would have been refused.
func moreRefused(r billing.Repriced) int64 {
	return num.Int64(r.WouldBe.Refused) - num.Int64(r.Was.Refused)
}

func printRepriced(to io.Writer, month string, list []billing.Repriced) {
	changed := slices.DeleteFunc(slices.Clone(list), func(r billing.Repriced) bool { return difference(r) == 0 })
	refused := slices.DeleteFunc(slices.Clone(list), func(r billing.Repriced) bool { return moreRefused(r) <= 0 })
	slices.SortStableFunc(changed, func(a, b billing.Repriced) int {
		return cmp.Compare(max(difference(b), -difference(b)), max(difference(a), -difference(a)))
	})
	slices.SortStableFunc(refused, func(a, b billing.Repriced) int { return cmp.Compare(moreRefused(b), moreRefused(a)) })
	fmt.Fprintf(to, "%s: %d of %d bills would differ, and %d accounts would have more requests refused.\n", month, len(changed), len(list), len(refused))
	printBills(to, "All accounts", []billing.Repriced{total(list)})
	printBills(to, "The largest differences", changed)
	printBills(to, "Most refused", refused)
}

func printBills(to io.Writer, title string, list []billing.Repriced) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(to, "\n%s\n", title)
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ACCOUNT\tPLAN\tBILL\tNEW BILL\tCREDITS\tNEW\tREQUESTS\tNEW\tREFUSED\tNEW\t")
	for _, r := range list[:min(len(list), shownRepriced)] {
		name := "all"
		if r.Account != 0 {
			name = r.Account.String()
		}
		a, b := r.Was, r.WouldBe
		fmt.Fprintf(table, "%s\t%s\t$%s\t$%s\t%s\t%s\t%d\t%d\t%d\t%d\t\n", name, b.Plan, plan.Dollars(a.Cents()), plan.Dollars(b.Cents()),
			plan.Credits(a.SpentMicros), plan.Credits(b.SpentMicros), a.Requests, b.Requests, a.Refused, b.Refused)
	}
	_ = table.Flush() // as with fmt.Fprint
	if more := len(list) - shownRepriced; more > 0 {
		fmt.Fprintf(to, "and %d more: --json prints all\n", more)
	}
}

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
	return billView{b.Plan, b.Requests, b.Refused, plan.Credits(b.SpentMicros), plan.Dollars(b.SpentCents), plan.Dollars(b.FeesCents), plan.Dollars(b.StorageCents), plan.Dollars(b.Cents())}
}

// repricedView is an account in JSON, or the sum of all without its id.
type repricedView struct {
	Account string   `json:"account,omitempty"`
	Was     billView `json:"was"`
	WouldBe billView `json:"wouldBe"`
}

func writeRepriced(to io.Writer, month string, list []billing.Repriced) error {
	view := func(account string, r billing.Repriced) repricedView {
		return repricedView{account, viewBill(r.Was), viewBill(r.WouldBe)}
	}
	out := struct {
		Month    string         `json:"month"`
		Sum      repricedView   `json:"sum"`
		Accounts []repricedView `json:"accounts"`
	}{month, view("", total(list)), []repricedView{}}
	for _, r := range list {
		out.Accounts = append(out.Accounts, view(r.Account.String(), r))
	}
	encoder := json.NewEncoder(to)
	encoder.SetIndent("", "  ")
	return encoder.Encode(out)
}
