package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// side is one of the two texts that diff compares.
type side struct {
	name    string
	content string
	meta    *client.Meta // of the call that read it; nil of a file
}

// diffJSON is what diff prints with --json.
type diffJSON struct {
	From string `json:"from"` // id@version, or the file's name
	To   string `json:"to"`
	Diff string `json:"diff"` // empty if the texts are the same
}

func (a *app) diff() *cobra.Command {
	r := &reading{app: a}
	var from, to int64
	var file string
	plain := false
	cmd := &cobra.Command{
		Use:   "diff [flags] <id|address> [id|address]",
		Short: "Show what has changed in a paste",
		Long: `Show the difference between two versions of a paste, of a paste and a file, or of two pastes, as patch reads it. Without flags it
compares the newest version with the one before. Nothing is printed if the texts are the same.

Each version counts as a read.`,
		Example: `  quire paste diff https://paste.example/p/Zk3vPq81mXaT
  quire paste diff Zk3vPq81mXaT --from 1 --to 3
  quire paste diff Zk3vPq81mXaT --file main.go
  quire paste diff Zk3vPq81mXaT b81mXaTZk3vP`,
		Args: oneOrTwo,
		RunE: func(cmd *cobra.Command, args []string) error {
			var refs []reference
			for _, arg := range args {
				ref, err := r.reference(arg)
				if err != nil {
					return err
				}
				refs = append(refs, ref)
			}
			for _, name := range []string{"from", "to"} {
				if v, _ := cmd.Flags().GetInt64(name); cmd.Flags().Changed(name) && v < 1 {
					return Usage("--%s: versions start at 1", name)
				}
			}
			one, other, err := r.sides(cmd.Context(), refs, from, to, file)
			if err != nil {
				return err
			}
			return r.showDiff(one, other, plain)
		},
	}
	r.add(cmd)
	cmd.Flags().Int64Var(&from, "from", 0, "the version to compare, from 1")
	cmd.Flags().Int64Var(&to, "to", 0, "the version to compare it with")
	cmd.Flags().StringVar(&file, "file", "", "compare with this file (- is standard input)")
	cmd.Flags().BoolVar(&plain, "no-pager", false, "do not use a pager")
	return cmd
}

// sides reads both texts.
func (r *reading) sides(ctx context.Context, refs []reference, from, to int64, file string) (one, other side, err error) {
	switch {
	case file != "" && (len(refs) > 1 || to != 0):
		return one, other, Usage("--file compares one version of one paste with the file")
	case len(refs) > 1:
		if one, _, err = r.side(ctx, refs[0], from); err == nil {
			other, _, err = r.side(ctx, refs[1], to)
		}
		return one, other, err
	case file != "":
		// The file first: it costs nothing.
		if other, err = r.fileSide(ctx, file); err == nil {
			one, _, err = r.side(ctx, refs[0], from)
		}
		return one, other, err
	}
	other, newest, err := r.side(ctx, refs[0], to)
	if err != nil {
		return one, other, err
	}
	if from == 0 {
		if from = newest - 1; from == 0 {
			return one, other, Usage("%s has only one version: give another paste, or a file with --file", refs[0].id)
		}
	}
	one, _, err = r.side(ctx, refs[0], from)
	return one, other, err
}

// side reads a version of a paste, the newest for 0, and returns its number.
func (r *reading) side(ctx context.Context, ref reference, version int64) (side, int64, error) {
	p, _, _, err := r.fetch(ctx, ref, version)
	if err != nil {
		return side{}, 0, err
	}
	return side{fmt.Sprintf("%s@%d", p.ID, p.Version), p.Content, &p.Meta}, p.Version, nil
}

func (r *reading) fileSide(ctx context.Context, name string) (side, error) {
	content, err := r.readFile(ctx, name)
	return side{name: name, content: content}, err
}

func (r *reading) showDiff(one, other side, plain bool) error {
	text := string(diff.Diff(one.name, []byte(one.content), other.name, []byte(other.content)))
	switch {
	case r.json:
		if err := r.printJSON(diffJSON{one.name, other.name, text}); err != nil {
			return err
		}
	case !terminal.IsTerminal(r.term.Out):
		if _, err := r.term.Out.WriteString(text); err != nil {
			return fmt.Errorf("print the difference: %w", err)
		}
	case text == "":
		r.note("%s and %s are the same.", one.name, other.name)
	default:
		if err := r.page(r.painted(text), plain); err != nil {
			return err
		}
	}
	for _, s := range []side{one, other} {
		if s.meta != nil && s.meta.ChargeSource == client.ChargedToCredits {
			r.note("%s", sentences(charge(*s.meta)))
		}
	}
	return nil
}

// painted is a unified diff for a person at a terminal. Everything in it that a stranger wrote is made visible.
func (a *app) painted(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		var colour terminal.Colour
		switch {
		case strings.HasPrefix(line, "@@"), strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
			colour = terminal.Dim
		case strings.HasPrefix(line, "+"):
			colour = terminal.Green
		case strings.HasPrefix(line, "-"):
			colour = terminal.Red
		}
		b.WriteString(a.term.Paint(a.term.Out, colour, terminal.Visible(strings.TrimRight(line, "\r\n"), true)) + "\n")
	}
	return b.String()
}
