package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"quire.dev/cli"
	"quire.dev/pkg/admin"
	"quire.dev/pkg/host"
	"quire.dev/services/edge"
	"quire.dev/services/standalone"
)

// Not counted in this limit is memory outside the Go runtime: the program and SQLite's caches, some 140 MB. Creations use 90
// MB. Until the limit is near, garbage is collected a quarter as often as by default, which only costs memory: a read takes a
// tenth less CPU than with 200.
const (
	memoryLimitBytes = 192 << 20
	garbagePercent   = 400
)

// boundMemory sets both, unless the runtime's own variables are set.
func boundMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimitBytes)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
}

func (c *command) up(ctx context.Context) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	boundMemory()
	renderCommand, err := edge.RenderCommand()
	if err != nil {
		return err
	}
	q, err := standalone.New(cfg, standalone.Deps{Logger: log, Progress: c.progress(), RenderCommand: renderCommand, AccessLog: c.stderr})
	if err != nil {
		return err
	}
	return c.whileRunning(ctx, q, func(ctx context.Context) error {
		if err := c.greet(ctx, q); err != nil {
			return err
		}
		debug.FreeOSMemory() // taken by the start: an idle process needs less
		forgetStart()
		<-ctx.Done()
		return nil
	})
}

// settings reads the environment and creates the logger.
func (c *command) settings() (host.Settings, *slog.Logger, error) {
	cfg, err := host.ReadSettings(host.Quire, c.environ)
	if err != nil {
		return cfg, nil, cli.Usage("%w", err)
	}
	return cfg, cfg.Logger(host.Quire, c.stderr), nil
}

// whileRunning runs q, calls use once q is ready, and stops q when use has returned. It returns the first error.
func (c *command) whileRunning(ctx context.Context, q *standalone.Quire, use func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	var both sync.WaitGroup
	var stopped error
	both.Go(func() {
		stopped = q.Run(ctx)
		end(stopped)
	})
	both.Go(func() {
		select {
		case <-q.Ready():
			end(use(ctx))
		case <-ctx.Done():
		}
	})
	both.Wait()
	if first := context.Cause(ctx); !errors.Is(first, context.Canceled) {
		return first
	}
	return stopped
}

// greet prints quire's URL. On the first start it also prints the admin token, and creates a Pro account.
func (c *command) greet(ctx context.Context, q *standalone.Quire) error {
	folder := q.Folder()
	fmt.Fprintf(c.stdout, "quire %s listens on %s\ndata folder: %s\n", version, q.URL(), folder.Path)
	if folder.Welcomed() {
		fmt.Fprintf(c.stdout, "admin token: in %s\nmore accounts: quire account create --email <address> --tier pro\n", q.AdminTokenPlace())
		return nil
	}
	api := admin.Client{Base: q.AdminURL(), Site: q.URL(), Token: q.AdminToken()}
	if err := api.Welcome(ctx, c.stdout, q.AdminTokenPlace()); err != nil {
		return err
	}
	return folder.Welcome()
}

// progress prints the progress of steps that take longer than a second, at most once a second.
func (c *command) progress() func(what string, done, total int64) {
	const patience = time.Second
	var current string
	var last time.Time
	return func(what string, done, total int64) {
		now := time.Now()
		if what != current {
			current, last = what, now
		}
		if now.Sub(last) >= patience && total > 0 {
			last = now
			fmt.Fprintf(c.stderr, "%s: %d of %d (%d %%)\n", what, done, total, done*100/total)
		}
	}
}
