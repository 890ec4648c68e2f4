package web

import (
	"context"
	"log/slog"
	"net"
	"testing"

	admins "quire.dev/pkg/admin"
	"quire.dev/pkg/apikey"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/edge/internal/bus"
)

// startServer serves the routes that setup adds and returns the address. Nobody answers on its bus.
func startServer(t testing.TB, cfg Config, setup func(*Server)) (*Server, string) {
	t.Helper()
	b, err := bus.New(journaltest.Start(t).Conn(t), bus.Config{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	return startServerOn(t, b, cfg, setup)
}

// startServerOn is startServer with a bus.
func startServerOn(t testing.TB, b *bus.Bus, cfg Config, setup func(*Server)) (*Server, string) {
	t.Helper()
	s := New(cfg, Deps{Bus: b, Secret: theSecret(t), Logger: slog.New(slog.DiscardHandler)})
	setup(s)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, ln.Addr().String()
}

func theToken() admins.Tokens { return admins.Tokens{{Name: admins.DefaultName, Secret: "the token"}} }

func theSecret(t testing.TB) *apikey.Secret {
	t.Helper()
	secret, err := apikey.NewSecret([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}
