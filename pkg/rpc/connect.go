package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/config"
)

// How soon a connection is given up whose server is cut off: no packet says so,
// and the system's own patience with it is a quarter of an hour.
const (
	// pingEvery and mostPings: a server is left that has not answered for 3 to 4 s.
	pingEvery = time.Second
	mostPings = 3
	// writeWait bounds a write, during which all who publish wait.
	writeWait = 2 * time.Second
	// dialWait is for one server to take a connection: TLS and a slow hash of
	// the password included, on a machine that is busy.
	dialWait = 2 * time.Second
	// Between two rounds through all servers, so that those who lost one
	// together don't come back at the same instant.
	roundWait   = 100 * time.Millisecond
	roundJitter = 150 * time.Millisecond
	// quietly is how often a server that can't be reached is told of.
	quietly = 10 * time.Second
)

// Connect connects a service to the servers in url, by commas, and returns at
// once, connected or not: it goes on trying until Close. Replies come to
// subjects of the service's own, _INBOX_<service>.>, which is all that its user
// may listen to.
//
// A server that is lost, cut off or about to stop is left for another one.
// What was on its way then may be lost, in either direction, and nothing is
// kept for later: while there is no connection, Publish fails. A batch that
// was reported as failed would else be stored after all, seconds later, when a
// client was told that it could try again. Who publishes knows best whether to
// send it again, and all do: appenders until they are acknowledged, sources
// until they are answered, readers until their deadline.
func Connect(url, service string, log *slog.Logger) (*nats.Conn, error) {
	watch := &watcher{log: log}
	nc, err := nats.Connect(url,
		nats.Name("quire "+service), nats.CustomInboxPrefix("_INBOX_"+service),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(roundWait), nats.ReconnectJitter(roundJitter, roundJitter), nats.Timeout(dialWait),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(mostPings),
		nats.FlusherTimeout(writeWait), nats.ReconnectOnFlusherError(),
		nats.ConnectHandler(watch.connected), nats.ReconnectHandler(watch.connected),
		nats.DisconnectErrHandler(watch.disconnected), nats.ReconnectErrHandler(watch.unreachable),
		nats.LameDuckModeHandler(watch.lameDuck), nats.ErrorHandler(watch.failed), nats.ClosedHandler(watch.closed),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %s", config.Redact(err.Error()))
	}
	return nc, nil
}

// WaitConnected returns nil once there is a connection, ErrClosed where there
// will be none, and ctx.Err() where ctx ends first.
func WaitConnected(ctx context.Context, nc *nats.Conn) error {
	status := nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer nc.RemoveStatusListener(status)
	for {
		switch {
		case nc.IsConnected():
			return nil
		case nc.IsClosed():
			return fmt.Errorf("wait for a connection to NATS: %w", ErrClosed)
		}
		select {
		case <-status:
		case <-ctx.Done():
			return fmt.Errorf("wait for a connection to NATS: %w", ctx.Err())
		}
	}
}

// watcher tells operators of a connection. Its methods run one at a time, on
// the connection's goroutine for that.
type watcher struct {
	log   *slog.Logger
	quiet time.Time // until then nothing more is said of servers that can't be reached
}

func (w *watcher) connected(nc *nats.Conn) {
	w.quiet = time.Time{}
	w.log.Info("connected to NATS", "server", nc.ConnectedUrlRedacted())
}

func (w *watcher) disconnected(_ *nats.Conn, err error) {
	if err != nil { // else it was closed here
		w.log.Warn("connection to NATS is lost", "cause", config.Redact(err.Error()))
	}
}

func (w *watcher) unreachable(_ *nats.Conn, err error) {
	if now := time.Now(); now.After(w.quiet) {
		w.quiet = now.Add(quietly)
		w.log.Warn("NATS can't be reached yet", "cause", config.Redact(err.Error()))
	}
}

// lameDuck only tells: the server ends its connections by and by, and what it
// has taken of them is still answered. To leave at once would fail that.
func (w *watcher) lameDuck(nc *nats.Conn) {
	w.log.Info("NATS server is about to stop", "server", nc.ConnectedUrlRedacted())
}

// failed is told of slow consumers, of what the user may not do, and the like.
func (w *watcher) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	w.log.Warn("connection to NATS reports an error", "subject", subject, "cause", config.Redact(err.Error()))
}

func (w *watcher) closed(nc *nats.Conn) {
	if err := nc.LastError(); err != nil { // else it was closed here
		w.log.Error("connection to NATS is closed", "cause", config.Redact(err.Error()))
	}
}
