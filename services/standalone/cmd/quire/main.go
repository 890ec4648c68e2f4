// Command quire runs everything in one process, and is the administrator's tool for it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quire.dev/cli"
	"quire.dev/pkg/host"
	"quire.dev/pkg/lifecycle"
	"quire.dev/services/edge"
)

// version is set by the linker.
var version = "dev"

// Exit statuses of the operator's commands. Commands below paste have more: see quire.dev/cli.
const (
	exitOK     = cli.ExitOK
	exitFailed = cli.ExitFailed
	exitUsage  = cli.ExitUsage // invalid settings too
)

func main() {
	c := command{
		args: os.Args[1:], environ: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
	}
	ctx, stop := lifecycle.Signals()
	status := c.run(ctx)
	stop()
	os.Exit(status)
}

// command is one run of the program.
type command struct {
	args                  []string
	environ               []string
	stdin, stdout, stderr *os.File
}

func (c *command) streams() cli.Streams {
	return cli.Streams{In: c.stdin, Out: c.stdout, Err: c.stderr, Environ: c.environ}
}

func (c *command) run(ctx context.Context) int {
	root := c.commands()
	root.SetArgs(withTwoDashes(c.args))
	ran, err := root.ExecuteContextC(ctx)
	switch {
	case err == nil:
		return exitOK
	case cli.IsPaste(ran):
		return cli.Report(ctx, c.streams(), ran, err)
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitOK
	}
	fmt.Fprintf(c.stderr, "quire: %v\n", err)
	if errors.As(err, new(cli.UsageError)) {
		return exitUsage
	}
	return exitFailed
}

// withTwoDashes adds the second dash to flags of the operator's commands, which used to accept -email for --email.
func withTwoDashes(args []string) []string {
	out := slices.Clone(args)
	if len(args) > 0 && args[0] == "paste" {
		return out // other commands never accepted that
	}
	for i, arg := range out {
		name, _, _ := strings.Cut(arg, "=")
		if slices.Contains([]string{"-email", "-tier", "-help"}, name) {
			out[i] = "-" + arg
		}
	}
	return out
}

// Groups of commands in the help.
const (
	operating = "operating"
	using     = "using"
)

func (c *command) commands() *cobra.Command {
	up := func(cmd *cobra.Command, _ []string) error { return c.up(cmd.Context()) }
	root := &cobra.Command{
		Use:   "quire",
		Short: "Pastes and files with exact billing, in one process",
		Long: `Pastes and files with exact billing, in one process. quire alone is quire up.

Settings are environment variables: quire help settings lists them with their defaults and meaning.

Operator commands connect to the quire that runs on QUIRE_DATA, or else to QUIRE_PUBLIC_URL or QUIRE_LISTEN, with the
admin token in QUIRE_ADMIN_TOKEN or in the data folder. If none is running, audit, repair and explain start one on the data
folder, on a free port of this machine, and stop it afterwards.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return cli.Usage("unknown command %q; run quire help", args[0])
		},
		RunE: up,
	}
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.AddGroup(&cobra.Group{ID: operating, Title: "Operator commands:"}, &cobra.Group{ID: using, Title: "User commands:"})
	paste := cli.Paste(c.streams(), version)
	paste.GroupID = using
	listen := c.listen()
	listen.GroupID = using
	operator := []*cobra.Command{
		{Use: "up", Short: "Start Quire (the default)", Args: cli.None, RunE: up},
		c.account(),
		c.prices(),
		c.auditCommand(),
		c.repairCommand(),
		c.doctor(),
		c.smokeTest(),
		c.debugBundle(),
		c.backupCommand(),
		c.restoreCommand(),
		c.explainCommand(),
		c.journalCommand(),
		c.repriceCommand(),
		c.witnessCommand(),
	}
	for _, cmd := range operator {
		cmd.GroupID = operating
	}
	root.AddCommand(operator...)
	root.AddCommand(
		paste, listen,
		&cobra.Command{
			Use: edge.RenderArgument, Hidden: true, Args: cli.None,
			Short: "Render texts for an edge (internal: edges start it)",
			RunE:  func(*cobra.Command, []string) error { return edge.Render(c.stdin, c.stdout) },
		},
		&cobra.Command{
			Use: "licenses", Short: "Print the licences of third-party software in quire", Args: cli.None,
			RunE: func(*cobra.Command, []string) error { return c.licenses() },
		},
		cli.Version(c.stdout, version),
	)
	root.SetHelpCommand(cli.Help(map[string]func() error{"settings": func() error { return host.ShowSettings(c.stdout) }}))
	cli.Prepare(root, c.stdout)
	return root
}
