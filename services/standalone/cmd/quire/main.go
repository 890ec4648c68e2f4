// Command quire runs everything in one process, and is the administrator's tool for it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"quire.dev/pkg/host"
	"quire.dev/pkg/lifecycle"
)

// version is set by the linker.
var version = "dev"

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // wrong settings too
)

func main() {
	c := command{
		args: os.Args[1:], environ: os.Environ(), stdout: os.Stdout, stderr: os.Stderr,
	}
	ctx, stop := lifecycle.Signals()
	status := c.run(ctx)
	stop()
	os.Exit(status)
}

// command is one run of the program.
type command struct {
	args           []string
	environ        []string
	stdout, stderr io.Writer
}

// usageError is an error with the exit status exitUsage.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// subcommand is one word after quire.
type subcommand struct {
	name, arguments, about string
	run                    func(*command, context.Context, []string) error
}

func subcommands() []subcommand {
	return []subcommand{
		{"up", "", "run quire (what bare quire does)", (*command).up},
		{"account", "create --email <address> --tier <tier>", "make an account and show its API key", (*command).account},
		{"audit", "", "fold the billing journals again and compare", (*command).audit},
		{"explain", "<request-id>", "show how a request was charged", (*command).explain},
		{"licenses", "", "print the licences of the software of others in quire", (*command).licenses},
		{"version", "", "print the version", (*command).version},
		{"help", "[settings]", "print this, or all settings", (*command).help},
	}
}

func (c *command) run(ctx context.Context) int {
	err := c.dispatch(ctx)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitOK
	}
	fmt.Fprintf(c.stderr, "quire: %v\n", err)
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailed
}

func (c *command) dispatch(ctx context.Context) error {
	name, rest := "up", c.args
	if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		name, rest = rest[0], rest[1:]
	}
	if len(c.args) > 0 && slices.Contains([]string{"-h", "-help", "--help"}, c.args[0]) {
		name, rest = "help", nil
	}
	for _, s := range subcommands() {
		if s.name == name {
			return s.run(c, ctx, rest)
		}
	}
	return usage("there is no command %q; quire help lists them", name)
}

// parse reads a subcommand's flags and returns its positional arguments, of which there must be want.
func (c *command) parse(flags *flag.FlagSet, args []string, want int) ([]string, error) {
	flags.SetOutput(io.Discard)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			c.printHelp()
			return nil, flag.ErrHelp
		}
		return nil, usageError{err}
	}
	if flags.NArg() != want {
		return nil, usage("%s takes %d arguments, not %d; quire help shows them", flags.Name(), want, flags.NArg())
	}
	return flags.Args(), nil
}

func (c *command) version(_ context.Context, args []string) error {
	if len(args) > 0 {
		return usage("version takes no arguments")
	}
	fmt.Fprintln(c.stdout, "quire", version)
	return nil
}

func (c *command) help(_ context.Context, args []string) error {
	switch {
	case len(args) == 0:
		c.printHelp()
		return nil
	case len(args) == 1 && args[0] == "settings":
		return host.ShowSettings(c.stdout)
	}
	return usage("help takes no arguments, or settings")
}

func (c *command) printHelp() {
	fmt.Fprintln(c.stdout, "Usage: quire [command]")
	fmt.Fprintln(c.stdout)
	for _, s := range subcommands() {
		fmt.Fprintf(c.stdout, "  %-50s %s\n", strings.TrimSpace(s.name+" "+s.arguments), s.about)
	}
	fmt.Fprint(c.stdout, `
Settings are environment variables: quire help settings shows all of them, their defaults and their meaning.

The other commands speak to the quire that runs on QUIRE_DATA, else to QUIRE_PUBLIC_URL or QUIRE_LISTEN, with the
admin token of QUIRE_ADMIN_TOKEN or of the data folder. Where none runs, audit and explain start one on the data
folder, on a free port of this machine, and stop it again.
`)
}
