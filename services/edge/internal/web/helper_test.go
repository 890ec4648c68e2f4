package web

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

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
	secret, err := apikey.NewSecret([]byte("0123456789abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	s := New(cfg, Deps{Bus: b, Secret: secret, Logger: slog.New(slog.DiscardHandler)})
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

type rawAnswer struct {
	status int
	header http.Header
	body   string
}

// exchange sends raw bytes and reads n answers.
func exchange(t *testing.T, addr, raw string, n int) []rawAnswer {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	var out []rawAnswer
	for range n {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("answer %d: %v", len(out)+1, err)
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rawAnswer{res.StatusCode, res.Header, string(b)})
	}
	return out
}
