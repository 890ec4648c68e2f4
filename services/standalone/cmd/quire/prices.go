package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli"
)

// prices is the command `prices` with its subcommands.
func (c *command) prices() *cobra.Command {
	a := &adminCommands{command: c}
	parent := &cobra.Command{
		Use: "prices", Short: "Show and change plans and prices",
		Long: `Show and change plans and prices. A price book is a JSON document; docs/price-book.md explains it. A book comes into force at
its effective time, for each request admitted from then on.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usage("usage: quire prices list|show|apply|withdraw; quire help prices shows more")
			}
			return cli.Usage("unknown command %q of quire prices; run quire help prices", args[0])
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	parent.PersistentFlags().BoolVar(&a.json, "json", false, "print the API's response")
	parent.AddCommand(a.listBooks(), a.showBook(), a.applyBook(), a.withdrawBook())
	return parent
}

// shownBook is a price book in the answers of the admin API. Its document is what remains without the first two fields.
type shownBook struct {
	ID          string          `json:"id,omitempty"`
	EffectiveAt string          `json:"effectiveAt,omitempty"`
	CreditPrice json.RawMessage `json:"creditPrice"`
	Anonymous   json.RawMessage `json:"anonymous"`
	Plans       json.RawMessage `json:"plans"`
}

type shownBooks struct {
	Current        shownBook
	Upcoming, Past []shownBook
}

func (a *adminCommands) listBooks() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the price books", Args: cli.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var found shownBooks
			return a.call(cmd.Context(), http.MethodGet, "/api/admin/prices", nil, &found, func() {
				table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
				fmt.Fprintln(table, "ID\tEFFECTIVE\tSTATUS")
				for _, b := range found.Upcoming {
					fmt.Fprintf(table, "%s\t%s\tupcoming\n", b.ID, b.EffectiveAt)
				}
				fmt.Fprintf(table, "%s\t%s\tin force\n", found.Current.ID, found.Current.EffectiveAt)
				for _, b := range found.Past {
					fmt.Fprintf(table, "%s\t%s\tpast\n", b.ID, b.EffectiveAt)
				}
				_ = table.Flush() // as with fmt.Fprint
			})
		},
	}
}

func (a *adminCommands) showBook() *cobra.Command {
	return &cobra.Command{
		Use: "show [<id>]", Short: "Print the document of a price book", Args: cobra.MaximumNArgs(1),
		Long: "Print the document of a price book: of the one in force, or of the one with the id. Change it and apply it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			var found shownBooks
			path, book := "/api/admin/prices", &found.Current
			out := any(&found)
			if len(args) == 1 {
				one := &struct{ Book shownBook }{}
				path, book, out = path+"/"+url.PathEscape(args[0]), &one.Book, one
			}
			return a.call(cmd.Context(), http.MethodGet, path, nil, out, func() {
				book.ID, book.EffectiveAt = "", ""
				_ = json.NewEncoder(indented{a.stdout}).Encode(book) // as with fmt.Fprint
			})
		},
	}
}

// indented indents JSON.
type indented struct{ to io.Writer }

func (w indented) Write(data []byte) (int, error) {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, data, "", "  "); err != nil {
		return 0, err
	}
	_, err := pretty.WriteTo(w.to)
	return len(data), err
}

func (a *adminCommands) applyBook() *cobra.Command {
	var effective string
	dryRun := false
	cmd := &cobra.Command{
		Use: "apply <file> --effective <time>", Short: "Apply a price book at a time", Args: cli.Exactly(1),
		Long: `Apply a price book at a time, such as 2027-01-01 (midnight UTC) or 2027-01-01T12:00:00Z. A file named - is standard input.
With --dry-run, print what would change, and change nothing.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := readTime(effective)
			if err != nil {
				return err
			}
			book, err := a.readBook(args[0])
			if err != nil {
				return err
			}
			path := "/api/admin/prices"
			if dryRun {
				path += "?dryRun=true"
			}
			var change bookChange
			body := map[string]any{"book": book, "effectiveAt": at.Format(time.RFC3339)}
			return a.call(cmd.Context(), http.MethodPost, path, body, &change, func() { change.print(a.stdout) })
		},
	}
	cmd.Flags().StringVar(&effective, "effective", "", "when the book comes into force, at least a minute from now")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would change, and change nothing")
	return cmd
}

func readTime(text string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, cli.Usage("set --effective to a time such as 2027-01-01 or 2027-01-01T12:00:00Z")
}

// readBook reads a document from a file, or from standard input.
func (a *adminCommands) readBook(name string) (json.RawMessage, error) {
	var data []byte
	var err error
	if name == "-" {
		data, err = io.ReadAll(a.stdin)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, err
	}
	if !json.Valid(data) {
		return nil, fmt.Errorf("%s is not JSON", name)
	}
	return data, nil
}

// bookChange is the answer to an applied book.
type bookChange struct {
	ID, EffectiveAt string
	DryRun          bool
	Changes         []struct {
		Plan, QuotaKey, Field string
		From, To              string // empty: null
	}
	Accounts []struct {
		Plan     string
		Accounts uint64
	}
}

func (c *bookChange) print(to io.Writer) {
	if len(c.Changes) == 0 {
		fmt.Fprintln(to, "No plan or price changes.")
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	accounts := map[string]string{"": "all"}
	for _, n := range c.Accounts {
		accounts[n.Plan] = strconv.FormatUint(n.Accounts, 10)
	}
	for i, d := range c.Changes {
		if i == 0 {
			fmt.Fprintln(table, "PLAN\tACCOUNTS\tWHAT\tFROM\tTO")
		}
		none := "none"
		if d.Field == "limit" {
			none = "unlimited"
		}
		what := strings.TrimSpace(d.QuotaKey + " " + d.Field)
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(d.Plan, "all"), accounts[d.Plan], what, cmp.Or(d.From, none), cmp.Or(d.To, none))
	}
	_ = table.Flush() // as with fmt.Fprint
	if c.DryRun {
		fmt.Fprintf(to, "Nothing was changed. The book %s would come into force at %s.\n", c.ID, c.EffectiveAt)
		return
	}
	fmt.Fprintf(to, "The book %s comes into force at %s.\n", c.ID, c.EffectiveAt)
}

func (a *adminCommands) withdrawBook() *cobra.Command {
	return &cobra.Command{
		Use: "withdraw <id>", Short: "Withdraw a price book that is not in force yet", Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var gone struct{ Withdrawn string }
			return a.call(cmd.Context(), http.MethodDelete, "/api/admin/prices/"+url.PathEscape(args[0]), nil, &gone, func() {
				fmt.Fprintf(a.stdout, "withdrawn: %s\n", gone.Withdrawn)
			})
		},
	}
}
