package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// signalledStatus plus a signal's number is the exit status, as in shells.
const signalledStatus = 128

// Main calls run with the context of Signals and returns the exit status of the process: 0 after success or an orderly stop, 1
// after an error or a panic, which it prints to standard error. It is for main functions only:
//
//	func main() { os.Exit(lifecycle.Main(run)) }
func Main(run func(ctx context.Context) error) int {
	ctx, stop := Signals()
	defer stop()
	err := guard(ctx, run)
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// Signals returns a context canceled by the first SIGINT or SIGTERM. A second one ends the process immediately. stop ends both,
// and leaves later signals to the runtime.
func Signals() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(signals, done, cancel)
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-watched
		cancel()
	}
}

// watch ends the context at the first signal and the process at the second.
func watch(signals <-chan os.Signal, done <-chan struct{}, cancel func()) {
	select {
	case <-signals:
		cancel()
	case <-done:
		return
	}
	select {
	case second := <-signals:
		status := 1
		if number, ok := second.(syscall.Signal); ok {
			status = signalledStatus + int(number)
		}
		os.Exit(status)
	case <-done:
	}
}

func guard(ctx context.Context, run func(ctx context.Context) error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
	}()
	return run(ctx)
}
