package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quire.dev/client"
)

// editing is a run of `edit`.
type editing struct {
	reading
	fields      fields
	ifVersion   int64
	changed     func(flag string) bool
	newPassword bool
}

func (a *app) edit() *cobra.Command {
	e := &editing{reading: reading{app: a}}
	cmd := &cobra.Command{
		Use:   "edit [flags] <id|address> [-]",
		Short: "Edit a paste in your editor, or with standard input or flags",
		Long: `Edit a paste: its text in your editor (VISUAL or EDITOR), or from standard input if that is not a terminal or "-" is given.
With only flags for other fields, the text stays unchanged. An empty value resets a field: --title "".

If the paste was edited in the meantime, nothing is overwritten and the command exits with status 7. If an edit fails, your text
is kept in a file whose name is printed. --if-version does the same for standard input and flags.`,
		Example: `  quire paste edit Zk3vPq81mXaT
  make 2>&1 | quire paste edit Zk3vPq81mXaT -
  quire paste edit --title "Release notes" --expires never Zk3vPq81mXaT`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && args[1] == "-" {
				return nil
			}
			return Exactly(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			e.changed = cmd.Flags().Changed
			return e.run(cmd.Context(), args[0], len(args) == 2)
		},
	}
	flags := cmd.Flags()
	e.fields.add(cmd)
	flags.Lookup(flagPassword).Usage = "prompt for the paste's password, or use QUIRE_PASSWORD"
	flags.Lookup(flagTitle).Usage = "new title"
	flags.Lookup(flagLanguage).Usage = "new language for highlighting, such as go, or auto to detect it in the new text; see quire paste languages"
	flags.BoolVar(&e.newPassword, "new-password", false, "protect it with a new password, prompted for or from QUIRE_PASSWORD")
	flags.BoolVar(&e.quick, "quick", false, "the id belongs to a quick paste")
	flags.Int64Var(&e.ifVersion, "if-version", 0, "edit the paste only if it has this version")
	return cmd
}

func (e *editing) run(ctx context.Context, text string, input bool) error {
	e.password = e.fields.password
	if e.changed("if-version") && e.ifVersion < 1 {
		return Usage("--if-version: versions start at 1")
	}
	change, byFlags, err := e.change(ctx)
	if err != nil {
		return err
	}
	ref, err := e.reference(text)
	if err != nil {
		return err
	}
	d := draft{version: e.ifVersion}
	switch {
	case input || !byFlags && !e.term.Interactive():
		if d.text, err = e.readInput(ctx, "Type the new text, then press Ctrl-D on an empty line."); err != nil {
			return err
		}
		if err = checkContent("-", d.text); err != nil {
			return err
		}
		change.Content = client.Set(d.text)
	case !byFlags:
		if d, err = e.inEditor(ctx, &ref); err != nil {
			return err
		}
		if d.unchanged {
			e.note("Nothing changed.")
			return nil
		}
		change.Content = client.Set(d.text)
	}
	if err := e.send(ctx, ref, change, &d); err != nil {
		return d.keep(reached(e.as, err))
	}
	return nil
}

// change is what the flags say, and whether they say anything.
func (e *editing) change(ctx context.Context) (client.PasteChange, bool, error) {
	byFlags := false
	given := func(flag string) bool {
		byFlags = byFlags || e.changed(flag)
		return e.changed(flag)
	}
	c, err := e.fields.change(given)
	if err != nil {
		return c, byFlags, err
	}
	if given("new-password") {
		c.Password = client.Reset[string]()
		if e.newPassword {
			password, err := e.app.newPassword(ctx)
			if err != nil {
				return c, byFlags, err
			}
			c.Password = client.Set(password)
		}
	}
	return c, byFlags, errors.Join(checkLanguage(e.fields.language), checkVisibility(e.fields.visibility))
}

// draft is the new text of a paste.
type draft struct {
	text      string
	unchanged bool
	version   int64 // that it replaces; 0: any
	path      string
	options   []client.CallOption
}

// keep keeps the text of a change that failed. A person's work is not lost, nor is what came through a pipe.
func (d *draft) keep(err error) error {
	if d.text == "" {
		return err
	}
	if d.path == "" {
		f, failed := os.CreateTemp("", "quire-edit-*.txt")
		if failed != nil {
			return errors.Join(err, failed)
		}
		_, failed = io.WriteString(f, d.text)
		if failed = errors.Join(failed, f.Close()); failed != nil {
			return errors.Join(err, failed)
		}
		d.path = f.Name()
	}
	return &keptError{err, d.path}
}

// keptError is the failure of a change whose text is kept.
type keptError struct {
	error
	path string
}

// Error implements error.
func (e *keptError) Error() string { return e.error.Error() + "; your text is kept in " + e.path }

// Unwrap is the failure.
func (e *keptError) Unwrap() error { return e.error }

// inEditor lets the user change the text of a paste.
func (e *editing) inEditor(ctx context.Context, ref *reference) (draft, error) {
	found, k, options, err := e.fetch(ctx, *ref, 0)
	if err != nil {
		return draft{}, err
	}
	ref.kinds = []kind{k}
	folder, err := os.MkdirTemp("", "quire-edit-") // with the mode 0700
	if err != nil {
		return draft{}, err
	}
	d := draft{version: found.Version, path: filepath.Join(folder, draftName(found)), options: options}
	if e.ifVersion > 0 {
		d.version = e.ifVersion
	}
	const onlyUser = 0o600
	err = os.WriteFile(d.path, []byte(found.Content), onlyUser)
	if err == nil {
		err = e.runEditor(d.path)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(d.path)
	}
	d.text, d.unchanged = string(content), string(content) == found.Content
	if err != nil || d.unchanged {
		return d, errors.Join(err, os.RemoveAll(folder))
	}
	if err := errors.Join(ctx.Err(), checkContent("the text", d.text)); err != nil {
		return d, d.keep(err)
	}
	return d, nil
}

// draftName is the name of the file that an editor shows, by which it highlights.
func draftName(p *client.Paste) string {
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(idCharacters+"._-", r) {
			return r
		}
		return '-'
	}, p.Title)
	name = strings.TrimLeft(name, ".-")
	const longest = 60
	if len(name) > longest {
		name = name[len(name)-longest:]
	}
	if filepath.Ext(name) != "" {
		return name
	}
	extension := ".txt"
	if p.Language != "plaintext" && strings.Trim(p.Language, idCharacters) == "" {
		extension = "." + p.Language
	}
	if name == "" {
		name = p.ID
	}
	return name + extension
}

// runEditor opens a file in the user's editor and waits until it has ended.
func (e *editing) runEditor(path string) error {
	editor := e.term.Env("VISUAL")
	if editor == "" {
		editor = e.term.Env("EDITOR")
	}
	var command *exec.Cmd
	switch {
	case runtime.GOOS == "windows":
		words := strings.Fields(editor)
		if len(words) == 0 {
			words = []string{"notepad"}
		}
		command = exec.Command(words[0], append(words[1:], path)...)
	case editor == "":
		command = exec.Command("vi", path)
	default:
		// The variable may have arguments, such as "code --wait", as git and others take it.
		command = exec.Command("sh", "-c", editor+` "$@"`, editor, path)
	}
	command.Stdin, command.Stdout, command.Stderr = e.term.In, e.term.Err, e.term.Err
	command.Env = e.term.Environ()
	if err := command.Run(); err != nil {
		return fmt.Errorf("run the editor %q (VISUAL or EDITOR name another): %w", strings.Join(command.Args, " "), err)
	}
	return nil
}

// updatedJSON is what edit prints with --json.
type updatedJSON struct {
	Kind      kind      `json:"kind"`
	ID        string    `json:"id"`
	Version   int64     `json:"version"`
	UpdatedAt time.Time `json:"updatedAt"`
	chargeJSON
}

// send carries the change out.
func (e *editing) send(ctx context.Context, ref reference, change client.PasteChange, d *draft) error {
	options := d.options
	if d.version > 0 {
		options = append(options, client.IfVersion(d.version))
	}
	if token := e.term.Env("QUIRE_MANAGE_TOKEN"); token != "" && e.as.key == "" {
		options = append(options, client.WithManageToken(token))
		ref.kinds = []kind{kindQuick} // no other kind has one
	}
	made, k, err := find(ctx, ref, func(ctx context.Context, k kind) (*client.UpdatedPaste, error) {
		return k.texts(e.client).Update(ctx, ref.id, change, options...)
	})
	if err != nil {
		return err
	}
	if d.path != "" {
		_ = os.RemoveAll(filepath.Dir(d.path)) // the service has the text now
	}
	if e.json {
		return e.printJSON(updatedJSON{k, made.ID, made.Version, made.UpdatedAt, chargeOf(made.Meta)})
	}
	e.note("%s", sentences(fmt.Sprintf("The %s now has version %d.", k.name(), made.Version), charge(made.Meta)))
	return nil
}
