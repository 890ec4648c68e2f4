package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/admin"
)

// adminCommands is what the subcommands that call the admin API share.
type adminCommands struct {
	*command
	json bool // print the API's response
}

func tiers() []string { return []string{"free", "pro", "max", "admin"} }

// account is the command `account` with its subcommands.
func (c *command) account() *cobra.Command {
	a := &adminCommands{command: c}
	parent := &cobra.Command{
		Use: "account", Short: "Create, show and change accounts",
		Long: `Create, show and change accounts. Identify an account by its id or email address. Each change is recorded in
the admin log.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage("usage: quire account create|show|plan|credits|refund|payment|reverse|suspend|resume|keys|revoke; quire help account shows more")
			}
			return cli.Usage("unknown command %q of quire account; run quire help account", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	parent.PersistentFlags().BoolVar(&a.json, "json", false, "print the API's response")
	parent.AddCommand(a.create(), a.show(), a.plan(), a.credits(), a.refund(), a.payment(), a.reverse(), a.suspend(), a.resume(), a.keys(), a.revoke())
	return parent
}

func (a *adminCommands) create() *cobra.Command {
	var wanted admin.NewAccount
	cmd := &cobra.Command{
		Use: "create --email <address> --tier <plan>", Short: "Create an account and show its API key", Args: cli.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wanted.Email == "" {
				return cli.Usage("usage: quire account create --email <address> --tier <plan>")
			}
			var created admin.CreatedAccount
			return a.call(cmd.Context(), http.MethodPost, "/api/admin/accounts", wanted, &created, func() {
				fmt.Fprintf(a.stdout, "account: %s (%s, %s)\nAPI key: %s\n         (shown only this once)\n",
					created.Account.ID, created.Account.Email, created.Account.Tier, created.APIKey)
			})
		},
	}
	cmd.Flags().StringVar(&wanted.Email, "email", "", "email address of the holder")
	cmd.Flags().StringVar(&wanted.Tier, "tier", "free", "plan: free, pro, max, admin, or one of the price book")
	_ = cmd.RegisterFlagCompletionFunc("tier", cobra.FixedCompletions(tiers(), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

func (a *adminCommands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show <account>", Short: "Show an account, its usage and its credits", Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var found shownAccount
			return a.callOn(cmd.Context(), http.MethodGet, args[0], "", nil, &found, func() { found.print(a.stdout) })
		},
	}
}

func (a *adminCommands) plan() *cobra.Command {
	nextMonth := false
	cmd := &cobra.Command{
		Use: "plan <account> <plan>", Short: "Change the plan of an account", Args: cli.Exactly(2),
		Long: "Change the plan of an account to free, pro, max, admin, or another plan of the price book.",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return tiers(), cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]string{"tier": args[1]}
			if nextMonth {
				body["when"] = "periodEnd"
			}
			var set struct{ Account shownHead }
			return a.callOn(cmd.Context(), http.MethodPut, args[0], "/tier", body, &set, func() {
				fmt.Fprintf(a.stdout, "%s is on the %s plan%s\n", set.Account.ID, set.Account.Tier, set.Account.next())
			})
		},
	}
	cmd.Flags().BoolVar(&nextMonth, "next-month", false, "change it with the next month")
	return cmd
}

func (a *adminCommands) credits() *cobra.Command {
	var grant, withdraw, reason, expires string
	cmd := &cobra.Command{
		Use: "credits <account> --grant <credits> | --withdraw <credits> --reason <text>", Short: "Grant credits to an account, or withdraw them",
		Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (grant == "") == (withdraw == "") || reason == "" {
				return cli.Usage("set --grant or --withdraw, and --reason")
			}
			body := map[string]string{"amount": grant, "reason": reason}
			if withdraw != "" {
				body["amount"] = "-" + withdraw
			}
			if expires != "" {
				body["expiresAt"] = expires
			}
			return a.correct(cmd.Context(), args[0], "/credits", body)
		},
	}
	cmd.Flags().StringVar(&grant, "grant", "", "credits to add, such as 100 or 0.5")
	cmd.Flags().StringVar(&withdraw, "withdraw", "", "credits to deduct")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the ledger: 1 to 200 characters")
	cmd.Flags().StringVar(&expires, "expires", "", "when granted credits expire, such as 2027-01-31T00:00:00Z")
	return cmd
}

func (a *adminCommands) suspend() *cobra.Command {
	return a.suspension("suspend", "Refuse all calls with an account's API keys", "suspended")
}

func (a *adminCommands) resume() *cobra.Command {
	return a.suspension("resume", "End the suspension or quarantine of an account", "active again")
}

func (a *adminCommands) suspension(verb, short, result string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: verb + " <account> --reason <text>", Short: short, Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if reason == "" {
				return cli.Usage("usage: quire account %s <account> --reason <text>", verb)
			}
			var set struct{ Account shownHead }
			return a.callOn(cmd.Context(), http.MethodPost, args[0], "/"+verb, map[string]string{"reason": reason}, &set, func() {
				fmt.Fprintf(a.stdout, "%s is %s\n", set.Account.ID, result)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the admin log: 1 to 200 characters")
	return cmd
}

func (a *adminCommands) keys() *cobra.Command {
	return &cobra.Command{
		Use: "keys <account>", Short: "List the API keys of an account", Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var found struct{ Keys []shownKey }
			return a.callOn(cmd.Context(), http.MethodGet, args[0], "/keys", nil, &found, func() {
				table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "ID\tNAME\tPREFIX\tSTATUS\tCREATED\tLAST USED")
				for _, k := range found.Keys {
					fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Prefix, k.Status, k.CreatedAt, cmp.Or(k.LastUsedAt, "never"))
				}
				_ = table.Flush() // as with fmt.Fprint
			})
		},
	}
}

func (a *adminCommands) revoke() *cobra.Command {
	yes := false
	cmd := &cobra.Command{
		Use: "revoke <account> <key>", Short: "Permanently revoke an API key of an account", Args: cli.Exactly(2),
		Long: "Permanently revoke an API key of an account. Use the key's id, as shown by quire account keys.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				sure, err := cli.Confirm(cmd.Context(), a.streams(), fmt.Sprintf("Revoke the key %s of %s?", args[1], args[0]))
				if err != nil || !sure {
					return err
				}
			}
			var revoked struct{ Key shownKey }
			return a.callOn(cmd.Context(), http.MethodDelete, args[0], "/keys/"+url.PathEscape(args[1]), nil, &revoked, func() {
				fmt.Fprintf(a.stdout, "revoked: %s (%s, %s…)\n", revoked.Key.ID, revoked.Key.Name, revoked.Key.Prefix)
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// callOn calls an endpoint of the account that is named by its id or its email address.
func (a *adminCommands) callOn(ctx context.Context, method, account, path string, body, out any, show func()) error {
	if !strings.Contains(account, "@") {
		return a.call(ctx, method, "/api/admin/accounts/"+url.PathEscape(account)+path, body, out, show)
	}
	api, err := a.api()
	if err != nil {
		return err
	}
	var found struct{ Accounts []shownHead }
	if err := api.Call(ctx, http.MethodGet, "/api/admin/accounts?email="+url.QueryEscape(account), nil, &found); err != nil {
		return fmt.Errorf("find %s: %w", account, err)
	}
	if len(found.Accounts) == 0 {
		return fmt.Errorf("no account has the address %s", account)
	}
	return a.call(ctx, method, "/api/admin/accounts/"+found.Accounts[0].ID+path, body, out, show)
}

// call calls an endpoint, decodes its answer into out, and shows it.
func (a *adminCommands) call(ctx context.Context, method, path string, body, out any, show func()) error {
	api, err := a.api()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var answer json.RawMessage
	if method == http.MethodGet {
		err = api.Call(ctx, method, path, body, &answer)
	} else {
		err = api.Change(ctx, method, path, body, &answer)
	}
	if err != nil {
		return err
	}
	if a.json {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, answer, "", "  "); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout, pretty.String())
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("unexpected response: %w", err)
	}
	show()
	return nil
}

func (a *adminCommands) api() (admin.Client, error) {
	cfg, _, err := a.settings()
	if err != nil {
		return admin.Client{}, err
	}
	return a.findRunning(cfg)
}

// shownHead is an account in the answers of the admin API.
type shownHead struct {
	ID, Email, Tier                 string
	SuspendedAt, SuspensionReason   string
	QuarantinedAt, QuarantineReason string
	DeletesAt, DeletedAt            string
	NextTier                        string
}

// next names the plan of the next month, if it is another one.
func (h *shownHead) next() string {
	if h.NextTier == "" {
		return ""
	}
	return ", and on the " + h.NextTier + " plan from the next month on"
}

// shownAccount is the answer that shows an account.
type shownAccount struct {
	Account shownHead
	Period  struct{ Start, End time.Time }
	Usage   map[string]struct {
		Used, Overage    uint64
		Limit, Remaining int64
		CreditsSpent     string
	}
	Credits struct{ Balance, SpentThisPeriod string }
	Storage struct{ UsedBytes, FreeBytes uint64 }
}

func (s shownAccount) print(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "Account\t%s\nEmail\t%s\nPlan\t%s\nStatus\t%s\n", s.Account.ID, s.Account.Email, s.Account.Tier, s.Account.status())
	fmt.Fprintf(table, "Credits\t%s, %s spent this month\n", short(s.Credits.Balance), short(s.Credits.SpentThisPeriod))
	const megabyte = 1e6
	fmt.Fprintf(table, "Storage\t%.1f MB of %.0f MB included\n", float64(s.Storage.UsedBytes)/megabyte, float64(s.Storage.FreeBytes)/megabyte)
	fmt.Fprintf(table, "Period\t%s, until %s\n", s.Period.Start.Format("January 2006"), s.Period.End.Format(time.RFC3339))
	_ = table.Flush() // as with fmt.Fprint
	fmt.Fprintln(w)
	table = tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "USED\tLIMIT\tLEFT\tOVERAGE\tCREDITS\t QUOTA KEY")
	for _, name := range slices.Sorted(maps.Keys(s.Usage)) {
		q := s.Usage[name]
		limit, left := fmt.Sprint(q.Limit), fmt.Sprint(q.Remaining)
		switch {
		case q.Limit < 0:
			limit, left = "unlimited", ""
		case q.Limit == 0:
			limit, left = "not in plan", ""
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%d\t%s\t %s\n", q.Used, limit, left, q.Overage, short(q.CreditsSpent), name)
	}
	_ = table.Flush()
}

// short is an amount such as "12.500000" without the zeros at its end.
func short(credits string) string {
	if !strings.Contains(credits, ".") {
		return credits
	}
	return strings.TrimRight(strings.TrimRight(credits, "0"), ".")
}

func (h shownHead) status() string {
	switch {
	case h.DeletedAt != "":
		return "deleted at " + h.DeletedAt
	case h.QuarantinedAt != "":
		return "quarantined since " + h.QuarantinedAt + ": " + h.QuarantineReason
	case h.SuspendedAt != "":
		return "suspended since " + h.SuspendedAt + ": " + h.SuspensionReason
	case h.DeletesAt != "":
		return "will be deleted at " + h.DeletesAt
	}
	return "active"
}

// shownKey is an API key in the answers of the admin API.
type shownKey struct {
	ID, Name, Prefix, Status, CreatedAt, LastUsedAt string
}
