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

// signalledStatus is added to a signal's number to make an exit status, as shells do.
const signalledStatus = 128

// Main runs what a process does and returns its exit status: 0 after success or an orderly stop, 1 after an error or a
// panic, which it prints to standard error. SIGINT and SIGTERM end run's context; a second one ends the process at
// once. It is for a main function only:
//
//	func main() { os.Exit(lifecycle.Main(run)) }
func Main(run func(ctx context.Context) error) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watch(signals, done, cancel)
	}()
	err := guard(ctx, run)
	signal.Stop(signals)
	close(done)
	<-watched
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
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
