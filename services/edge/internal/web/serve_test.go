package web

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/edge/internal/bus"
)

func TestAServerThatIsStoppedBeforeItServesReturns(t *testing.T) {
	b, err := bus.New(journaltest.Start(t).Conn(t), bus.Config{Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() {
		done <- New(Config{}, Deps{Bus: b, Logger: slog.New(slog.DiscardHandler)}).Serve(ctx, ln)
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it still serves")
	}
	if c, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		c.Close()
		t.Error("it still listens")
	}
}
