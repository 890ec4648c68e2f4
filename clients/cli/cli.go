// Package cli is the command line for users of Quire: the commands below `quire paste`, and the parts that every command of
// quire shares, such as help, completions, manual pages and exit statuses. The client's own program and the server's have
// the same commands.
package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"quire.dev/cli/internal/profile"
	"quire.dev/cli/internal/terminal"
	"quire.dev/client"
)

// Streams are the program's standard streams and environment.
type Streams struct {
	In, Out, Err *os.File
	Environ      []string // in the form of os.Environ
}

// app is the state shared by the commands under paste, for one run of the program.
type app struct {
	term    *terminal.Terminal
	version string

	// Flags that each command has.
	url, profile string
	json, quiet  bool

	// Set by connect.
	connected   *client.Client
	connectedAs account
}

// Main runs the client-only program and returns its exit status.
func Main(ctx context.Context, streams Streams, version string, args []string) int {
	root := &cobra.Command{
		Use:   "quire",
		Short: "Create, read and share pastes and files",
		Long: `Create, read and share pastes and files of a Quire server.

This program has the commands for users. The server's program has them too, plus its own.`,
	}
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.AddCommand(Paste(streams, version), Version(streams.Out, version))
	root.SetHelpCommand(Help(nil))
	Prepare(root, streams.Out)
	root.SetArgs(args)
	ran, err := root.ExecuteContextC(ctx)
	return Report(ctx, streams, ran, err)
}

// Paste is the command `paste` with its subcommands.
func Paste(streams Streams, version string) *cobra.Command {
	a := &app{term: terminal.New(streams.In, streams.Out, streams.Err, streams.Environ), version: version}
	paste := &cobra.Command{
		Use:   "paste",
		Short: "Create, read and share pastes and files",
		Long: `Create, read and share pastes and files.

Results go to standard output, such as the URL of a new paste. Everything else goes to standard error.

The API key and the URL of the service come from QUIRE_API_KEY and QUIRE_URL, or else from the profile of "quire paste login".
Without a key you can create quick pastes.`,
		Example: `  quire paste login
  quire paste create main.go
  make 2>&1 | quire paste create --title "make on my machine" --expires 7d
  quire paste get https://paste.example/p/Zk3vPq81mXaT > main.go
  quire paste upload photo.jpg
  quire paste usage`,
		Annotations: map[string]string{annotation: ""},
	}
	flags := paste.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "URL of the service, such as https://paste.example")
	flags.StringVar(&a.profile, "profile", "", "profile to use instead of the current one")
	flags.BoolVar(&a.json, "json", false, "print JSON, one object per line, including errors")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print only results and errors")
	paste.AddCommand(
		a.create(), a.view(), a.get(), a.diff(), a.edit(), a.list(), a.remove(), a.versions(),
		a.upload(), a.download(), a.open(),
		a.usage(), a.explain(), a.languages(),
		a.login(), a.logout(), a.profiles(),
	)
	for _, cmd := range paste.Commands() {
		run := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			defer a.keepReceipt(cmd.Context())
			return run(cmd, args)
		}
	}
	_ = paste.RegisterFlagCompletionFunc("profile", a.completeProfile) // the flag is there
	return paste
}

// annotation marks the commands whose errors Report prints in the form of this package.
const annotation = "quire.dev/cli"

// Version is the command `version`.
func Version(out *os.File, version string) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: None,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(out, "quire", version)
			return err
		},
	}
}

// Help is the command `help`: of a command, or of a topic, which its function prints.
func Help(topics map[string]func() error) *cobra.Command {
	names := slices.Sorted(maps.Keys(topics))
	return &cobra.Command{
		Use: "help [" + strings.Join(append([]string{"command"}, names...), "|") + "]", Short: "Show the help of a command" + strings.Join(append([]string{""}, names...), ", or all "),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			at, _, err := cmd.Root().Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			var found []string
			for _, below := range at.Commands() {
				if !below.Hidden {
					found = append(found, below.Name())
				}
			}
			if len(args) == 0 {
				found = append(found, names...)
			}
			return found, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && topics[args[0]] != nil {
				return topics[args[0]]()
			}
			at, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				hint := "quire help lists them"
				for _, name := range names {
					hint += ", and quire help " + name + " shows all " + name
				}
				return Usage("unknown command %q; %s", strings.Join(args, " "), hint)
			}
			return at.Help()
		},
	}
}

// Prepare completes a program's commands: mistakes in flags and arguments are a UsageError, commands with others below them
// refuse those that they don't have, and `completion` and `man` are added. The program's output is set before.
func Prepare(root *cobra.Command, out *os.File) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return Usage("%v; %s --help shows the flags", err, cmd.CommandPath())
	})
	root.AddCommand(manual(out))
	root.InitDefaultCompletionCmd()
	prepareGroups(root)
}

func prepareGroups(cmd *cobra.Command) {
	cmd.DisableFlagsInUseLine = true
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return unknown(cmd, args[0])
		}
	}
	for _, below := range cmd.Commands() {
		prepareGroups(below)
	}
}

// unknown is the error for an unknown subcommand of cmd.
func unknown(cmd *cobra.Command, name string) error {
	hint := ""
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s?", near[0])
	}
	return Usage("unknown command %q%s; run %s --help", strings.TrimPrefix(cmd.CommandPath()+" ", cmd.Root().Name()+" ")+name, hint, cmd.CommandPath())
}

// None accepts no arguments.
func None(cmd *cobra.Command, args []string) error { return Exactly(0)(cmd, args) }

// Exactly accepts n arguments.
func Exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return Usage("%s takes %s, not %d; quire help %s shows its arguments", cmd.Name(), count(n, "argument"), len(args), below(cmd))
	}
}

// atLeastOne accepts one argument or more.
func atLeastOne(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return nil
	}
	return Usage("%s takes at least 1 argument; quire help %s shows its arguments", cmd.Name(), below(cmd))
}

// oneOrTwo accepts one argument or two.
func oneOrTwo(cmd *cobra.Command, args []string) error {
	if len(args) == 1 || len(args) == 2 {
		return nil
	}
	return Usage("%s takes 1 or 2 arguments, not %d; quire help %s shows its arguments", cmd.Name(), len(args), below(cmd))
}

// atMostOne accepts one argument or none.
func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return Usage("%s takes 1 argument at most, not %d; quire help %s shows its arguments", cmd.Name(), len(args), below(cmd))
}

// below is the name of a command without the program's name.
func below(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// manual is the command `man`.
func manual(out *os.File) *cobra.Command {
	return &cobra.Command{
		Use:   "man <folder>",
		Short: "Write the manual pages to a folder",
		Long:  "Write the manual pages of all commands to a folder, such as ~/.local/share/man/man1.",
		Args:  Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			const readableFolder = 0o755
			if err := os.MkdirAll(args[0], readableFolder); err != nil { //nolint:gosec // manual pages are for everybody
				return fmt.Errorf("write the manual pages: %w", err)
			}
			cmd.Root().DisableAutoGenTag = true
			if err := doc.GenManTree(cmd.Root(), &doc.GenManHeader{Section: "1", Source: "quire", Manual: "Quire"}, args[0]); err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], cmd.Root().Name()+"*.1"))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "%s in %s\n", count(len(pages), "page"), args[0])
			return err
		},
	}
}

// store opens the profiles in the user's configuration folder.
func (a *app) store() (*profile.Store, error) {
	folder := a.term.Env("XDG_CONFIG_HOME")
	switch {
	case folder != "":
	case runtime.GOOS == "windows" && a.term.Env("AppData") != "":
		folder = a.term.Env("AppData")
	case a.term.Env("HOME") != "":
		folder = filepath.Join(a.term.Env("HOME"), ".config")
	default:
		return nil, errors.New("no folder for profiles: set HOME or XDG_CONFIG_HOME, or use QUIRE_API_KEY and QUIRE_URL")
	}
	return profile.Open(filepath.Join(folder, "quire"), profile.System(a.term.Env)), nil
}

// note prints a line on standard error, unless --quiet is set.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintf(a.term.Err, format+"\n", args...)
	}
}
