package endpointtest

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/pages"
)

// Edge has the dependencies of endpoints under test. Nothing answers on its bus.
type Edge struct {
	*endpoint.Base
	Bus    *bus.Bus
	Secret *apikey.Secret
	Pages  *pages.Pages
	Logger *slog.Logger
}

// New returns an edge without endpoints.
func New(t testing.TB, cfg endpoint.Config) *Edge {
	t.Helper()
	secret, err := apikey.NewSecret([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.New(journaltest.Start(t).Conn(t), bus.Config{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	e := &Edge{Bus: b, Secret: secret, Pages: pages.New(), Logger: slog.New(slog.DiscardHandler)}
	e.Base = endpoint.New(cfg, endpoint.Deps{Bus: b, Secret: secret, Pages: e.Pages, Logger: e.Logger})
	return e
}

// Serve serves GET on the rows' paths until the test ends, and returns the address.
func (e *Edge) Serve(t testing.TB, rows ...endpoint.Row) string {
	t.Helper()
	for _, r := range rows {
		e.HTTP().Handle("GET", r.Path, e.Handler(&r))
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if e.PublicURL() == "" {
		e.SetPublicURL("http://" + ln.Addr().String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.HTTP().Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}
