package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// reading is a run of a command that reads a paste.
type reading struct {
	*app
	quick    bool
	password bool
	client   *client.Client
	as       account
}

func (r *reading) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&r.quick, "quick", false, "the id belongs to a quick paste")
	cmd.Flags().BoolVar(&r.password, flagPassword, false, "prompt for the paste's password, or use QUIRE_PASSWORD")
}

// reference parses the argument and connects.
func (r *reading) reference(text string) (reference, error) {
	kinds := []kind{kindPaste, kindQuick}
	if r.quick {
		kinds = kinds[1:]
	}
	ref, err := parseReference(text, kinds...)
	if err != nil {
		return ref, err
	}
	r.client, r.as, err = r.connect()
	return ref, err
}

// fetch reads a paste, with its password if needed.
func (r *reading) fetch(ctx context.Context, ref reference, version int64) (*client.Paste, kind, []client.CallOption, error) {
	var options []client.CallOption
	password := r.term.Env("QUIRE_PASSWORD")
	for asked := false; ; asked = true {
		if r.password && password == "" {
			if !r.term.Interactive() {
				return nil, kindPaste, nil, Usage("--%s: cannot prompt: not a terminal. Set QUIRE_PASSWORD.", flagPassword)
			}
			var err error
			if password, err = r.term.AskSecret(ctx, "Password of the paste: "); err != nil {
				return nil, kindPaste, nil, err
			}
			asked = true
		}
		if password != "" {
			options = []client.CallOption{client.WithPassword(password)}
		}
		found, k, err := find(ctx, ref, func(ctx context.Context, k kind) (*client.Paste, error) {
			if version > 0 {
				return k.texts(r.client).GetVersion(ctx, ref.id, version, options...)
			}
			return k.texts(r.client).Get(ctx, ref.id, options...)
		})
		var failed *client.APIError
		if errors.As(err, &failed) && failed.Code == "wrong_password" && !asked && r.term.Interactive() {
			r.password, password = true, ""
			continue
		}
		return found, k, options, reached(r.as, err)
	}
}

func (a *app) get() *cobra.Command {
	r := &reading{app: a}
	var version int64
	var to string
	cmd := &cobra.Command{
		Use:   "get [flags] <id|address>",
		Short: "Print the text of a paste",
		Long: `Print the text of a paste. On a terminal, control characters are shown as text.

An id is looked up among pastes, then among quick pastes. Failed lookups cost nothing.`,
		Example: `  quire paste get https://paste.example/p/Zk3vPq81mXaT
  quire paste get --version 2 Zk3vPq81mXaT -o main.go`,
		Args: Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := r.reference(args[0])
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("version") && version < 1 {
				return Usage("--version: versions start at 1")
			}
			found, k, _, err := r.fetch(cmd.Context(), ref, version)
			if err != nil {
				return err
			}
			return r.show(k, found, to)
		},
	}
	r.add(cmd)
	cmd.Flags().Int64Var(&version, "version", 0, "an earlier version, from 1")
	cmd.Flags().StringVarP(&to, "output", "o", "", "write the text to a file, replacing it if it exists")
	return cmd
}

// readJSON is what get prints with --json.
type readJSON struct {
	textJSON
	Content string `json:"content"`
	chargeJSON
}

func (r *reading) show(k kind, p *client.Paste, to string) error {
	if to != "" {
		if err := replaceFile(to, p.Content); err != nil {
			return err
		}
	}
	switch {
	case r.json:
		if err := r.printJSON(readJSON{textOf(k, p.PasteHead), p.Content, chargeOf(p.Meta)}); err != nil {
			return err
		}
	case to == "":
		text := p.Content
		if terminal.IsTerminal(r.term.Out) {
			text = terminal.Visible(text, true)
		}
		if _, err := io.WriteString(r.term.Out, text); err != nil {
			return fmt.Errorf("print the text: %w", err)
		}
	}
	// The text comes first: the cost follows only if credits paid.
	if to != "" || p.ChargeSource == client.ChargedToCredits {
		r.note("%s", sentences(charge(p.Meta)))
	}
	return nil
}

// replaceFile replaces a file atomically.
func replaceFile(name, content string) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), ".quire-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	mode := os.FileMode(newFileMode)
	if before, err := os.Stat(name); err == nil {
		mode = before.Mode().Perm()
	}
	_, err = io.WriteString(temporary, content)
	err = errors.Join(err, temporary.Chmod(mode), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// newFileMode is the mode of new files.
const newFileMode = 0o644

// versionJSON is what versions prints with --json.
type versionJSON struct {
	Version   int64     `json:"version"`
	Title     string    `json:"title"`
	Language  string    `json:"language"`
	Size      int64     `json:"size"`
	CreatedAt time.Time `json:"createdAt"`
}

func (a *app) versions() *cobra.Command {
	r := &reading{app: a}
	cmd := &cobra.Command{
		Use:   "versions [flags] <id|address>",
		Short: "List the versions of a paste",
		Long:  "List the versions of your paste, newest first. Free of charge.",
		Args:  Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ref, err := r.reference(args[0])
			if err != nil {
				return err
			}
			found, _, err := find(cmd.Context(), ref, func(ctx context.Context, k kind) ([]*client.PasteVersion, error) {
				return collect(k.texts(r.client).Versions(ctx, ref.id))
			})
			if err != nil {
				return reached(r.as, err)
			}
			table := terminal.NewTable(
				terminal.Column{Name: "VERSION", Right: true}, terminal.Column{Name: "TITLE", Shorten: true, Drop: 2}, terminal.Column{Name: "LANG", Drop: 3},
				terminal.Column{Name: "SIZE", Right: true, Drop: 1}, terminal.Column{Name: "MADE"},
			)
			for _, v := range found {
				if r.json {
					if err := r.printJSON(versionJSON(*v)); err != nil {
						return err
					}
					continue
				}
				table.Add(cells(fmt.Sprint(v.Version), v.Title, v.Language, r.size(v.Size), r.time(v.CreatedAt))...)
			}
			if r.json {
				return nil
			}
			return table.Write(r.term, r.term.Out)
		},
	}
	cmd.Flags().BoolVar(&r.quick, "quick", false, "the id belongs to a quick paste")
	return cmd
}

// collect returns all items, or the first error.
func collect[T any](all iter.Seq2[T, error]) ([]T, error) {
	var out []T
	for v, err := range all {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func cells(texts ...string) []terminal.Cell {
	out := make([]terminal.Cell, len(texts))
	for i, text := range texts {
		out[i].Text = text
	}
	return out
}

// time formats a time for a table: for people, or for programs.
func (a *app) time(t time.Time) string {
	switch {
	case t.IsZero():
		return "never"
	case terminal.IsTerminal(a.term.Out):
		return t.Local().Format("2006-01-02 15:04")
	}
	return t.UTC().Format(time.RFC3339)
}

// size formats a size for a table: for people, or for programs.
func (a *app) size(bytes int64) string {
	if terminal.IsTerminal(a.term.Out) {
		return terminal.Size(bytes)
	}
	return fmt.Sprint(bytes)
}
