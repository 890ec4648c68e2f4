package cli

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

func (a *app) usage() *cobra.Command {
	verify, reset := false, false
	cmd := &cobra.Command{
		Use:   "usage [flags]",
		Short: "Show this month's usage, or verify its receipts",
		Long: `Show this month's usage by quota key. Free of charge.

Commands keep the receipts that the service returns with metered calls, in receipts.json beside the profiles. --verify fetches the
entries behind them, everything that was counted and charged since the last verification, and checks that none was edited, left out,
added or moved since a receipt was returned. The first --verify only keeps a receipt, if no command has kept one.`,
		Args: None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if verify {
				return a.verify(cmd.Context(), reset)
			}
			if reset {
				return Usage("--reset is for --verify")
			}
			c, as, err := a.connect()
			if err != nil {
				return err
			}
			used, err := c.Account.Usage(cmd.Context())
			if err != nil {
				return reached(as, err)
			}
			if a.json {
				return a.printJSON(usageOf(used))
			}
			return a.showUsage(used)
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "verify the entries since the kept receipts")
	cmd.Flags().BoolVar(&reset, "reset", false, "with --verify: discard the kept receipts, and keep the service's newest")
	return cmd
}

// usageJSON is what usage prints with --json.
type usageJSON struct {
	Account struct {
		ID    string `json:"id"`
		Email string `json:"email"`
		Tier  string `json:"tier"`
	} `json:"account"`
	Period struct {
		Start time.Time `json:"start"`
		End   time.Time `json:"end"`
	} `json:"period"`
	Quotas  []quotaJSON `json:"quotas"`
	Credits struct {
		Balance         client.Credits `json:"balance"`
		SpentThisPeriod client.Credits `json:"spentThisPeriod"`
	} `json:"credits"`
	Storage struct {
		UsedBytes    int64  `json:"usedBytes"`
		FreeBytes    int64  `json:"freeBytes"`
		AverageBytes int64  `json:"averageBytes"`
		OverageUSD   string `json:"overageUsd"`
	} `json:"storage"`
}

// quotaJSON is a quota key.
type quotaJSON struct {
	QuotaKey     string         `json:"quotaKey"`
	Used         int64          `json:"used"`
	Limit        int64          `json:"limit"`
	Remaining    int64          `json:"remaining"`
	Overage      int64          `json:"overage"`
	CreditsSpent client.Credits `json:"creditsSpent"`
}

func usageOf(u *client.Usage) usageJSON {
	var out usageJSON
	out.Account.ID, out.Account.Email, out.Account.Tier = u.Account.ID, u.Account.Email, u.Account.Tier
	out.Period.Start, out.Period.End = u.Period.Start, u.Period.End
	out.Credits.Balance, out.Credits.SpentThisPeriod = u.Credits.Balance, u.Credits.SpentThisPeriod
	out.Storage.UsedBytes, out.Storage.FreeBytes = u.Storage.UsedBytes, u.Storage.FreeBytes
	out.Storage.AverageBytes, out.Storage.OverageUSD = u.Storage.AverageBytes, u.Storage.OverageUSD
	for _, name := range slices.Sorted(maps.Keys(u.Usage)) {
		q := u.Usage[name]
		out.Quotas = append(out.Quotas, quotaJSON{name, q.Used, q.Limit, q.Remaining, q.Overage, q.CreditsSpent})
	}
	return out
}

// meterColumns is the width of the bars in the table.
const meterColumns = 16

func (a *app) showUsage(u *client.Usage) error {
	out := a.term.Out
	bold := func(text string) string { return a.term.Paint(out, terminal.Bold, text) }
	people := terminal.IsTerminal(out)
	if people {
		if err := a.print(fmt.Sprintf("%s, %s plan, %s. Quotas reset at %s.\n", bold(terminal.Visible(u.Account.Email, false)), u.Account.Tier,
			u.Period.Start.Format("January 2006"), clock(u.Period.End))); err != nil {
			return err
		}
	}
	columns := []terminal.Column{
		{Name: "QUOTA KEY"},
		{Name: "USED", Right: true},
		{Name: "OF", Right: true, Drop: 1},
		{Name: "LEFT", Right: true, Drop: 2},
		{Name: "OVER", Right: true, Drop: 4},
		{Name: "CREDITS", Right: true, Drop: 5},
	}
	if people {
		columns = slices.Insert(columns, 3, terminal.Column{Name: "", Drop: 3}) // the meter
	}
	table := terminal.NewTable(columns...)
	for _, name := range slices.Sorted(maps.Keys(u.Usage)) {
		row := a.usageRow(name, u.Usage[name])
		if !people {
			row = slices.Delete(row, 3, 4)
		}
		table.Add(row...)
	}
	if err := table.Write(a.term, out); err != nil {
		return err
	}
	if !people {
		return nil
	}
	share := 0.0
	if u.Storage.FreeBytes > 0 {
		share = float64(u.Storage.UsedBytes) / float64(u.Storage.FreeBytes)
	}
	storage := fmt.Sprintf("%s of %s included", terminal.Size(u.Storage.UsedBytes), terminal.Size(u.Storage.FreeBytes))
	const label = 9
	if free := terminal.Width(out) - label - len(storage) - 2; free >= meterColumns {
		storage = a.term.Paint(out, warmth(share), terminal.Meter(share, meterColumns)) + "  " + storage
	}
	return a.print(fmt.Sprintf("\n%s  %s, %s spent this month\n%s  %s", bold("Credits"), u.Credits.Balance, u.Credits.SpentThisPeriod, bold("Storage"), storage))
}

// usageRow is a quota key in the table.
func (a *app) usageRow(name string, q client.KeyUsage) []terminal.Cell {
	limit, left, over, credits := fmt.Sprint(q.Limit), fmt.Sprint(q.Remaining), fmt.Sprint(q.Overage), q.CreditsSpent.String()
	meter, colour := "", terminal.Colour("")
	people := terminal.IsTerminal(a.term.Out)
	switch {
	case q.Limit > 0:
		// What credits paid is beyond the quota.
		share := float64(q.Limit-q.Remaining) / float64(q.Limit)
		meter, colour = terminal.Meter(share, meterColumns), warmth(share)
	case people && q.Limit < 0:
		limit, left = "unlimited", ""
	case people:
		limit, left = "not in plan", ""
		colour = terminal.Dim
	}
	if people && q.Overage == 0 {
		over = ""
	}
	if people && q.CreditsSpent == 0 {
		credits = ""
	}
	row := cells(name, fmt.Sprint(q.Used), limit, meter, left, over, credits)
	row[3].Colour = colour
	if q.Limit == 0 {
		row[0].Colour, row[2].Colour = terminal.Dim, terminal.Dim
	}
	return row
}

// warmth is the color of a meter.
func warmth(share float64) terminal.Colour {
	const much, most = 0.75, 0.95
	switch {
	case share >= most:
		return terminal.Red
	case share >= much:
		return terminal.Yellow
	}
	return terminal.Green
}

func (a *app) explain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain <request-id>",
		Short: "Show how a request was billed",
		Long: `Show how a request was billed, from the service's journal. Errors and --json show request ids. Free of charge; it may take some
seconds.`,
		Args: Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, as, err := a.connect()
			if err != nil {
				return err
			}
			found, err := c.Account.Explain(cmd.Context(), args[0])
			if err != nil {
				return reached(as, err)
			}
			if a.json {
				return a.printJSON(found)
			}
			return a.print(terminal.Visible(found.Text, true))
		},
	}
}
