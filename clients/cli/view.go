package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

func (a *app) view() *cobra.Command {
	r := &reading{app: a}
	var version int64
	plain := false
	cmd := &cobra.Command{
		Use:   "view [flags] <id|address>",
		Short: "Read a paste in the terminal",
		Long: `Read a paste in the terminal: its title and fields, and its text with line numbers, in the pager of PAGER (less by default).
Control characters are shown as text. If standard output is not a terminal, it prints the text alone, as get does.`,
		Example: `  quire paste view https://paste.example/p/Zk3vPq81mXaT
  PAGER=cat quire paste view Zk3vPq81mXaT`,
		Args: Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("version") && version < 1 {
				return Usage("--version: versions start at 1")
			}
			ref, err := r.reference(args[0])
			if err != nil {
				return err
			}
			found, k, _, err := r.fetch(cmd.Context(), ref, version)
			if err != nil {
				return err
			}
			if r.json || !terminal.IsTerminal(r.term.Out) {
				return r.show(k, found, "")
			}
			if err := r.page(r.numbered(k, found), plain); err != nil {
				return err
			}
			if found.ChargeSource == client.ChargedToCredits {
				r.note("%s", charge(found.Meta))
			}
			return nil
		},
	}
	r.add(cmd)
	cmd.Flags().Int64Var(&version, "version", 0, "an earlier version, from 1")
	cmd.Flags().BoolVar(&plain, "no-pager", false, "do not use a pager")
	return cmd
}

// numbered is a paste for a person at a terminal. Everything in it that a stranger wrote is made visible.
func (a *app) numbered(k kind, p *client.Paste) string {
	var b strings.Builder
	title := p.Title
	if title == "" {
		title = p.ID
	}
	fmt.Fprintln(&b, a.term.Paint(a.term.Out, terminal.Bold, terminal.Visible(title, false)))
	about := fmt.Sprintf("%s, %s, %s, version %d, %s", k.name(), p.Language, terminal.Size(p.Size), p.Version, a.time(p.UpdatedAt))
	fmt.Fprintf(&b, "%s\n\n", a.term.Paint(a.term.Out, terminal.Dim, terminal.Visible(about, false)))
	n := 0
	digits := len(fmt.Sprint(strings.Count(p.Content, "\n") + 1))
	for line := range strings.Lines(p.Content) {
		n++
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		fmt.Fprintf(&b, "%s %s\n", a.term.Paint(a.term.Out, terminal.Dim, fmt.Sprintf("%*d", digits, n)), terminal.Visible(line, true))
	}
	return b.String()
}

// page shows a text on the terminal, in the user's pager unless plain is set. The text must be safe for a terminal.
func (a *app) page(text string, plain bool) error {
	pager := a.term.Env("PAGER")
	if pager == "" {
		pager = "less"
	}
	if !plain && a.term.Interactive() && runtime.GOOS != "windows" {
		command := exec.Command("sh", "-c", pager)
		command.Stdin, command.Stdout, command.Stderr = strings.NewReader(text), a.term.Out, a.term.Err
		command.Env = a.term.Environ()
		if a.term.Env("LESS") == "" {
			command.Env = append(command.Env, "LESS=FRX") // end on one screen, show colors, leave the text on the screen
		}
		var missing bytes.Buffer
		if pager == "less" {
			command.Stderr = &missing // of the shell: there is no less
		}
		err := command.Run()
		var exit *exec.ExitError
		const notFound = 127 // of a shell
		switch {
		case err == nil:
			return nil
		case errors.As(err, &exit) && exit.ExitCode() != notFound:
			return fmt.Errorf("run the pager %q (PAGER names another): %w", pager, err)
		}
	}
	if _, err := a.term.Out.WriteString(text); err != nil {
		return fmt.Errorf("print the text: %w", err)
	}
	return nil
}
