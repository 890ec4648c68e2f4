package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// Maximum sizes of content in bytes: docs/api.md, Limits.
const (
	largestPaste = 4 << 20
	largestQuick = 256 << 10
)

// creation is a run of `create`.
type creation struct {
	*app
	fields
	quick, chosen    bool // chosen: the user has said which kind
	lines            string
	copy, qr, browse bool
	dryRun           bool
	client           *client.Client
	file             string // that is being created, as the user named it; - is standard input
	several          bool   // there are other files
	as               account
}

func (a *app) create() *cobra.Command {
	c := &creation{app: a}
	cmd := &cobra.Command{
		Use:   "create [flags] [file…|-]",
		Short: "Create a paste from each file, or from standard input",
		Long: `Create a paste from each file, or from standard input, and print its URL.

With an API key it creates a paste of up to 4 MB, counted as pastes.create. Without a key, or if the plan has no pastes, it
creates a quick paste of up to 256 KB, counted as pasteLite.create. --quick always creates a quick paste, --quick=false never.
--dry-run shows what would be created and how it would be billed.

With several files, all are read before the first paste is created. If the service refuses one, the others are still created. Each
failure is reported with its file, and the first one determines the exit status.`,
		Example: `  quire paste create main.go
  quire paste create *.go
  quire paste create --lines 10-20 main.go
  dmesg | quire paste create --title dmesg --expires 1d --copy
  quire paste create --visibility private --burn --password secret.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.chosen = cmd.Flags().Changed("quick")
			return c.run(cmd.Context(), args)
		},
	}
	c.fields.add(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&c.quick, "quick", false, "create a quick paste; --quick=false never creates one")
	flags.StringVar(&c.lines, "lines", "", "only these lines of the file, such as 10-20, 10 or 10-")
	flags.BoolVar(&c.copy, "copy", false, "copy the URL to the clipboard, also over ssh (OSC 52)")
	flags.BoolVar(&c.qr, "qr", false, "show the URL as a QR code")
	flags.BoolVar(&c.browse, "open", false, "open the page in the browser")
	flags.BoolVar(&c.dryRun, "dry-run", false, "show what would be created and billed, without doing it")
	return cmd
}

func (c *creation) run(ctx context.Context, files []string) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	if err := c.check(files); err != nil {
		return err
	}
	var err error
	if c.client, c.as, err = c.connect(); err != nil {
		return err
	}
	var password string
	if c.password {
		if password, err = c.newPassword(ctx); err != nil {
			return err
		}
	}
	// All files are read before the first paste is created: a mistyped name leaves nothing half done.
	pastes := make([]client.NewPaste, len(files))
	var failed failures
	for i, file := range files {
		switch pastes[i], err = c.draft(ctx, file); {
		case err != nil && (len(files) == 1 || ctx.Err() != nil):
			return err
		case err != nil:
			failed = append(failed, &fileError{file, err})
		}
		pastes[i].Password = password
	}
	if len(failed) > 0 {
		return failed
	}
	return c.each(ctx, files, pastes)
}

// each creates or foresees the pastes one after another. A file that is refused does not stop the others. Without a valid key or a
// service that answers, the rest is not tried.
func (c *creation) each(ctx context.Context, files []string, pastes []client.NewPaste) error {
	var addresses []string
	var failed failures
	for i, file := range files {
		c.file, c.several = file, len(files) > 1
		address, err := c.one(ctx, pastes[i])
		if address != "" {
			addresses = append(addresses, address)
		}
		if err == nil {
			continue
		}
		err = reached(c.as, err)
		status := Status(ctx, err)
		if !c.several || status == ExitInterrupted {
			return err
		}
		failed = append(failed, &fileError{file, fmt.Errorf("%s: %w", file, err)})
		if status == ExitKey || status == ExitUnavailable || status == ExitUnknown {
			for _, rest := range files[i+1:] {
				failed = append(failed, &fileError{rest, fmt.Errorf("%s: not tried", rest)})
			}
			break
		}
	}
	c.present(addresses...)
	return failed.err()
}

// one creates or foresees a paste. The address is empty if none was created.
func (c *creation) one(ctx context.Context, p client.NewPaste) (address string, err error) {
	if c.dryRun {
		return "", c.foresee(ctx, p)
	}
	return c.make(ctx, p)
}

// about begins a line about the current file if there are several.
func (c *creation) about(text string) string {
	if !c.several {
		return text
	}
	return terminal.Visible(c.file, false) + ": " + text
}

// check validates the flags.
func (c *creation) check(files []string) error {
	if len(files) > 1 && (c.lines != "" || c.title != "") {
		return Usage("--lines and --title accept one file, not %d", len(files))
	}
	if c.lines != "" {
		if _, _, err := parseLines(c.lines); err != nil {
			return err
		}
	}
	if _, _, err := until(c.expires); err != nil {
		return err
	}
	return errors.Join(checkLanguage(c.language), checkVisibility(c.visibility))
}

// draft reads a file into a paste.
func (c *creation) draft(ctx context.Context, file string) (client.NewPaste, error) {
	var p client.NewPaste
	content, err := c.readFile(ctx, file)
	if err != nil {
		return p, err
	}
	if p, err = c.paste(content); err != nil {
		return p, err
	}
	name := file
	if file == "-" {
		name = ""
	}
	if c.lines != "" {
		from, to, err := parseLines(c.lines)
		if err != nil {
			return p, err
		}
		if p.Content, to, err = linesOf(p.Content, from, to); err != nil {
			return p, err
		}
		if name != "" && p.Title == "" {
			p.Title = fmt.Sprintf("%s, lines %d to %d", filepath.Base(name), from, to)
		}
	}
	if name != "" && p.Title == "" {
		p.Title = filepath.Base(name)
	}
	if p.Language == "" {
		// The service detects it by the title, unless that is no name of the file.
		if p.Language = languageAuto; name != "" && p.Title != filepath.Base(name) {
			p.Language = languageOf(name)
		}
	}
	return p, checkContent(file, p.Content)
}

// readFile reads a text: a file, or standard input for -.
func (a *app) readFile(ctx context.Context, file string) (string, error) {
	if file == "-" {
		return a.readInput(ctx, "Type the text, then press Ctrl-D on an empty line.")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", readable(err)
	}
	defer f.Close()
	return readText(f)
}

// readInput reads standard input, with an invitation on a terminal.
func (a *app) readInput(ctx context.Context, invitation string) (string, error) {
	if a.term.Interactive() {
		a.note("%s", invitation)
	}
	return terminal.Await(ctx, func() (string, error) { return readText(a.term.In) })
}

// readText reads one byte more than a paste may have, with which it is refused. --lines may take a part of a larger file.
func readText(f *os.File) (string, error) {
	const most = 256 << 20 // no text for people is larger
	content, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", f.Name(), err)
	case len(content) > most:
		return "", Usage("%s has more than %s", f.Name(), size(most))
	}
	return string(content), nil
}

// checkContent refuses invalid content before it is sent.
func checkContent(name, content string) error {
	if name == "-" {
		name = "standard input"
	}
	switch {
	case content == "":
		return Usage("%s is empty", name)
	case !utf8.ValidString(content):
		return Usage("%s is not UTF-8 text; use quire paste upload", name)
	case len(content) > largestPaste:
		return Usage("%s has %s; a paste can have at most %s; use quire paste upload for files up to 50 MB", name, size(len(content)), size(largestPaste))
	}
	return nil
}

// make creates the paste, prints it, and returns its address.
func (c *creation) make(ctx context.Context, p client.NewPaste) (string, error) {
	k := kindPaste
	if c.quick || !c.chosen && c.as.key == "" {
		k = kindQuick
	}
	made, err := k.texts(c.client).Create(ctx, p)
	if noPlan := new(client.PlanUpgradeRequiredError); errors.As(err, &noPlan) && k == kindPaste && !c.chosen {
		// The refusal has cost nothing.
		if len(p.Content) > largestQuick {
			return "", fmt.Errorf("it has %s, and a quick paste at most %s: %w", size(len(p.Content)), size(largestQuick), err)
		}
		k = kindQuick
		made, err = k.texts(c.client).Create(ctx, p)
	}
	if err != nil {
		return "", err
	}
	return made.URL, c.show(k, p, made)
}

// createdJSON is what create prints with --json.
type createdJSON struct {
	File        string     `json:"file"` // as given; - is standard input
	Kind        kind       `json:"kind"`
	ID          string     `json:"id"`
	URL         string     `json:"url"`
	RawURL      string     `json:"rawUrl"`
	Version     int64      `json:"version"`
	CreatedAt   time.Time  `json:"createdAt"`
	ExpiresAt   *time.Time `json:"expiresAt"`
	ManageToken string     `json:"manageToken,omitempty"`
	chargeJSON
}

func (c *creation) show(k kind, p client.NewPaste, made *client.CreatedPaste) error {
	var err error
	if c.json {
		err = c.printJSON(createdJSON{
			File: c.file, Kind: k, ID: made.ID, URL: made.URL, RawURL: made.RawURL, Version: made.Version, CreatedAt: made.CreatedAt,
			ExpiresAt: orNull(made.ExpiresAt), ManageToken: made.ManageToken, chargeJSON: chargeOf(made.Meta),
		})
	} else {
		err = c.print(made.URL)
	}
	if err != nil {
		return err
	}
	created := fmt.Sprintf("Created a %s of %s.", k.name(), size(len(p.Content)))
	c.note("%s", c.about(sentences(created, expiry(made.ExpiresAt), charge(made.Meta))))
	if made.ManageToken != "" && !c.json {
		// Nothing else can change or delete it, so that --quiet does not hide it.
		fmt.Fprintf(c.term.Err, "%s\n", c.about("Management token, shown only once: "+made.ManageToken))
	}
	return nil
}

// present copies, shows or opens URLs according to the flags. Failures are reported but don't change the exit status, since the
// pastes exist, and a second attempt would be charged again.
func (c *creation) present(addresses ...string) {
	var errs []error
	for _, address := range addresses {
		if c.qr {
			code, err := terminal.QR(address)
			if err == nil {
				_, err = io.WriteString(c.term.Err, code)
			}
			errs = append(errs, err)
		}
		if c.browse {
			errs = append(errs, c.openBrowser(address))
		}
	}
	if c.copy && len(addresses) > 0 {
		errs = append(errs, c.term.Copy(strings.Join(addresses, "\n")))
	}
	for _, err := range errs {
		if err != nil {
			fmt.Fprintf(c.term.Err, "%s %v\n", c.term.Paint(c.term.Err, terminal.Yellow, "quire:"), err)
		}
	}
}

// foreseenJSON is what create prints with --json --dry-run.
type foreseenJSON struct {
	File         string `json:"file"`
	Kind         kind   `json:"kind"`
	Size         int    `json:"size"`
	QuotaKey     string `json:"quotaKey"`
	Remaining    *int64 `json:"remaining"`    // null without a key: unknown
	ChargeSource string `json:"chargeSource"` // none if it would be refused
}

// foresee shows what would be created and how it would be billed, free of charge.
func (c *creation) foresee(ctx context.Context, p client.NewPaste) error {
	out := foreseenJSON{File: c.file, Kind: kindPaste, Size: len(p.Content), ChargeSource: string(client.ChargedToQuota)}
	if c.quick || !c.chosen && c.as.key == "" {
		out.Kind = kindQuick
	}
	text := "It counts toward this network's anonymous quick pastes."
	if c.as.key != "" {
		used, err := c.client.Account.Usage(ctx)
		if err != nil {
			return err
		}
		if used.Usage["pastes.create"].Limit == 0 && !c.chosen {
			out.Kind = kindQuick
		}
		out.QuotaKey = quotaKeys()[out.Kind]
		quota := used.Usage[out.QuotaKey]
		out.Remaining = &quota.Remaining
		switch {
		case quota.Limit == 0:
			out.ChargeSource, text = string(client.NotCharged), fmt.Sprintf("It would be refused: the %s plan does not include %s.", used.Account.Tier, out.QuotaKey)
		case quota.Remaining < 0:
			text = "The plan is unlimited."
		case quota.Remaining > 0:
			text = fmt.Sprintf("%s left, of which it uses one.", count(int(quota.Remaining), "free request"))
		case used.Account.Tier == "free":
			out.ChargeSource, text = string(client.NotCharged), "It would be refused: this month's quota is exhausted."
		default:
			out.ChargeSource = string(client.ChargedToCredits)
			text = fmt.Sprintf("Over quota: it would use credits; the balance is %s.", used.Credits.Balance)
		}
	}
	out.QuotaKey = quotaKeys()[out.Kind]
	if c.json {
		return c.printJSON(out)
	}
	return c.print(c.about(fmt.Sprintf("It would be a %s of %s, counted under %s. %s", out.Kind.name(), size(out.Size), out.QuotaKey, text)))
}

func quotaKeys() map[kind]string {
	return map[kind]string{kindPaste: "pastes.create", kindQuick: "pasteLite.create"}
}

// parseLines reads a range of lines, from 1: "10-20", "10" or "10-". A to of 0 is the last line.
func parseLines(text string) (from, to int, err error) {
	wrong := Usage("--lines %s: expected a range such as 10-20, 10 or 10-", text)
	first, last, ranged := strings.Cut(text, "-")
	if from, err = strconv.Atoi(first); err != nil || from < 1 {
		return 0, 0, wrong
	}
	switch {
	case !ranged:
		return from, from, nil
	case last == "":
		return from, 0, nil
	}
	if to, err = strconv.Atoi(last); err != nil || to < from {
		return 0, 0, wrong
	}
	return from, to, nil
}

// linesOf are lines of a text, with their ends, and the number of the last of them.
func linesOf(text string, from, to int) (string, int, error) {
	var out bytes.Buffer
	n := 0
	for line := range strings.Lines(text) {
		n++
		if n >= from && (to == 0 || n <= to) {
			out.WriteString(line)
		}
	}
	if n < from || n < to {
		return "", 0, Usage("--lines: no line %d; the text has %s", max(from, to), count(n, "line"))
	}
	if to == 0 {
		to = n
	}
	return out.String(), to, nil
}
