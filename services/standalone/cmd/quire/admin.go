package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/host"
	"quire.dev/services/standalone"
)

const auditTimeout = 6 * time.Hour // it replays all events

// errNotRunning means that no server is reachable.
var errNotRunning = errors.New("no quire is running")

// findRunning finds the running quire by the data folder, else by QUIRE_PUBLIC_URL or QUIRE_LISTEN.
func (c *command) findRunning(cfg host.Settings) (admin.Client, error) {
	base, token, err := standalone.FindRunning(cfg)
	if err != nil {
		return admin.Client{}, err
	}
	if base == "" {
		switch {
		case cfg.AdminListen != "":
			base = standalone.ListenURL(cfg.AdminListen)
		case cfg.PublicURL != "":
			base = cfg.PublicURL
		case c.isSet("QUIRE_LISTEN"):
			base = standalone.ListenURL(cfg.Listen)
		default:
			return admin.Client{}, fmt.Errorf("%w on %s: start it with quire up, or set QUIRE_DATA or QUIRE_PUBLIC_URL", errNotRunning, cfg.Data)
		}
	}
	if token == "" {
		return admin.Client{}, fmt.Errorf("set QUIRE_ADMIN_TOKEN: %s has no admin token for %s", cfg.Data, base)
	}
	return admin.Client{Base: base, Token: token}, nil
}

func (c *command) isSet(name string) bool {
	return slices.ContainsFunc(c.environ, func(v string) bool { return strings.HasPrefix(v, name+"=") && len(v) > len(name)+1 })
}

// withServer calls use with the running quire, or starts one on the data folder for it.
func (c *command) withServer(ctx context.Context, use func(context.Context, admin.Client) error) error {
	cfg, log, err := c.settings()
	if err != nil {
		return err
	}
	api, err := c.findRunning(cfg)
	switch {
	case err == nil:
		err = use(ctx, api)
		if !isRefused(err) {
			return err
		}
		// No server listens there: start one on the data folder instead.
	case !errors.Is(err, errNotRunning):
		return err
	}
	if !standalone.HasData(cfg.Data) {
		return fmt.Errorf("%w, and %s holds no data", errNotRunning, cfg.Data)
	}
	return c.whileAlone(ctx, cfg, log, use)
}

// whileAlone starts a quire on the settings' data folder, on a free port of this machine, for use, and stops it.
func (c *command) whileAlone(ctx context.Context, cfg host.Settings, log *slog.Logger, use func(context.Context, admin.Client) error) error {
	cfg.Listen, cfg.PublicURL, cfg.AdminListen = "127.0.0.1:0", "", ""
	cfg.SMTPURL = "" // e-mails need the public URL, and wait
	q, err := standalone.New(cfg, standalone.Deps{Logger: log, Progress: c.progress()})
	if err != nil {
		return err
	}
	return c.whileRunning(ctx, q, func(ctx context.Context) error {
		return use(ctx, admin.Client{Base: q.AdminURL(), Token: q.AdminToken()})
	})
}

// isRefused reports whether the connection failed.
func isRefused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// showProgress prints, after a second and then each second, that an operation is still running, until stop is called. progress adds
// its progress, rate and remaining time.
func (c *command) showProgress(what string) (progress func(done, total uint64), stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var printing sync.WaitGroup
	var share atomic.Pointer[string]
	share.Store(new(""))
	start := time.Now()
	began, last := start, uint64(0)
	printing.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				fmt.Fprintf(c.stderr, "%s%s, %s so far\n", what, *share.Load(), time.Since(start).Round(time.Second))
			}
		}
	})
	progress = func(done, total uint64) {
		if done < last { // it was restarted, or resumed
			began = time.Now()
		}
		last = done
		share.Store(new(fmt.Sprintf(", %d of %d messages%s", done, total, pace(done, total, time.Since(began)))))
	}
	return progress, func() {
		cancel()
		printing.Wait()
	}
}

// pace is the rate of an operation, and how long the rest takes at it.
func pace(done, total uint64, spent time.Duration) string {
	perSecond := float64(done) / max(spent.Seconds(), 0.001)
	if done == 0 || perSecond < 1 {
		return ""
	}
	left := time.Duration(float64(total-min(done, total)) / perSecond * float64(time.Second))
	return fmt.Sprintf(", %.0f a second, about %s left", perSecond, left.Round(time.Second))
}
