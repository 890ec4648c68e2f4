package web

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// TestAServerForAdminsLeavesWhatEdgesTellToTheOther: both share a bus, and may start in either order.
func TestAServerForAdminsLeavesWhatEdgesTellToTheOther(t *testing.T) {
	secret, err := apikey.NewSecret([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	nc := journaltest.Start(t).Conn(t)
	b, err := bus.New(nc, bus.Config{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	run := func(what string, f func(context.Context) error) {
		done := make(chan error, 1)
		go func() { done <- f(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	run("bus", b.Run)
	<-b.Ready()
	serve := func(what string, cfg Config) *Server {
		s := New(cfg, Deps{Bus: b, Secret: secret, Logger: slog.New(slog.DiscardHandler)})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		run(what, func(ctx context.Context) error { return s.Serve(ctx, ln) })
		endpointtest.Exchange(t, ln.Addr().String(), "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", 1)
		return s
	}
	api := serve("api", Config{})
	serve("admins", Config{Config: endpoint.Config{AdminTokens: theToken()}, AdminOnly: true})

	id := secret.Network(netip.MustParseAddr("192.0.2.1").AsSlice())
	told, err := event.Encode(&event.SourceCounts{Edge: "another", Sources: []*event.SourceCount{
		{Source: uint64(id), Calls: 300},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Publish(event.SourcesSubject, told); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the API's server hears of the views", func() bool {
		if api.Views.Sources.Take(id, time.Now()) > 0 {
			return true
		}
		api.Views.Sources.Return(id)
		return false
	})
}
