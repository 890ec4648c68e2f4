package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"quire.dev/pkg/config"
)

// How soon an unreachable server is abandoned. No packet reports the loss, and the operating system would wait for a quarter of
// an hour.
const (
	// A server is abandoned after 3 to 4 s without an answer to pings.
	pingEvery = time.Second
	maxPings  = 3
	// writeWait bounds a write. All publishers wait for it.
	writeWait = 2 * time.Second
	// dialWait bounds a new connection, including TLS and a slow password hash on a busy machine.
	dialWait = 2 * time.Second
	// Pause between two rounds through all servers. The jitter spreads clients that lost a server at the same time.
	roundWait   = 100 * time.Millisecond
	roundJitter = 150 * time.Millisecond
	// unreachableEvery is the minimum interval between log lines about unreachable servers.
	unreachableEvery = 10 * time.Second
)

// Connect connects a service to one of the servers in url, which are separated by commas. It returns at once, connected or not,
// and keeps trying until Close. Replies come to _INBOX_<service>.>, the only inbox that the service's user may subscribe to.
//
// If the server is lost, unreachable or about to stop, the connection fails over to another one. Messages in transit may then
// be lost in both directions. While disconnected Publish fails, and the client buffers nothing. Otherwise a batch reported as
// failed could still be stored seconds later, after its caller had been asked to retry. Every publisher decides itself about
// retries: appenders retry until an acknowledgment, sources until an answer, readers until their deadline.
func Connect(url, service string, log *slog.Logger) (*nats.Conn, error) {
	watch := &watcher{log: log}
	nc, err := nats.Connect(url,
		nats.Name("quire "+service), nats.CustomInboxPrefix("_INBOX_"+service),
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(roundWait), nats.ReconnectJitter(roundJitter, roundJitter), nats.Timeout(dialWait),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(maxPings),
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

// ConnectNow is Connect, but waits until the connection is established or ctx ends.
func ConnectNow(ctx context.Context, url, name string, log *slog.Logger) (*nats.Conn, error) {
	nc, err := Connect(url, name, log)
	if err != nil {
		return nil, err
	}
	if err := WaitConnected(ctx, nc); err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// ConnectOnce connects a caller whose requests must not arrive late: it does not reconnect.
func ConnectOnce(url, name string) (*nats.Conn, error) {
	nc, err := nats.Connect(url, nats.Name("quire "+name), nats.CustomInboxPrefix("_INBOX_"+name), nats.NoReconnect(), nats.Timeout(dialWait),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(maxPings), nats.FlusherTimeout(writeWait))
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %s", config.Redact(err.Error()))
	}
	return nc, nil
}

// WaitConnected returns nil once connected, ErrClosed if the connection is closed, and ctx.Err() if ctx ends first.
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

// watcher logs the events of a connection. The connection calls its methods one at a time, on one goroutine.
type watcher struct {
	log   *slog.Logger
	quiet time.Time // end of the silence about unreachable servers
}

func (w *watcher) connected(nc *nats.Conn) {
	w.quiet = time.Time{}
	w.log.Info("connected to NATS", "server", nc.ConnectedUrlRedacted())
}

func (w *watcher) disconnected(_ *nats.Conn, err error) {
	if err != nil { // nil: this process closed it
		w.log.Warn("connection to NATS is lost", "cause", config.Redact(err.Error()))
	}
}

func (w *watcher) unreachable(_ *nats.Conn, err error) {
	if now := time.Now(); now.After(w.quiet) {
		w.quiet = now.Add(unreachableEvery)
		w.log.Warn("NATS is unreachable so far", "cause", config.Redact(err.Error()))
	}
}

// lameDuck only logs. The server closes its connections one by one and first answers the requests it has received. Leaving at
// once would fail those.
func (w *watcher) lameDuck(nc *nats.Conn) {
	w.log.Info("NATS server is about to stop", "server", nc.ConnectedUrlRedacted())
}

// failed logs slow consumers, refused subjects and the like.
func (w *watcher) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	w.log.Warn("connection to NATS reports an error", "subject", subject, "cause", config.Redact(err.Error()))
}

func (w *watcher) closed(nc *nats.Conn) {
	if err := nc.LastError(); err != nil { // nil: this process closed it
		w.log.Error("connection to NATS is closed", "cause", config.Redact(err.Error()))
	}
}
