// Command standin runs the stand-in for Stripe as a separate process, for browser tests. It delivers webhooks immediately, and accepts
// POST /test/<action>, see control.go in package stripetest.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"quire.dev/pkg/payments/stripe/stripetest"
)

func main() {
	var config stripetest.Config
	flag.StringVar(&config.Address, "listen", "127.0.0.1:0", "`address` on the loopback interface")
	flag.StringVar(&config.Endpoint, "endpoint", "", "`URL` that webhooks are posted to")
	flag.Int64Var(&config.TaxPercent, "tax", 0, "tax in `percent`")
	flag.Parse()
	config.Auto = true
	server, err := stripetest.Start(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, "standin:", err)
		os.Exit(1)
	}
	fmt.Println(server.URL)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	<-ctx.Done()
	stop()
	server.Close()
}
