// Command quire is the client alone: quire paste, without the server.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"quire.dev/cli"
)

// version is set by the linker.
var version = "dev"

func main() {
	// The first signal ends what is under way in order, the second one the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	status := cli.Main(ctx, cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}, version, os.Args[1:])
	stop()
	os.Exit(status)
}
