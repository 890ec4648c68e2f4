package web

import (
	"bufio"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// TestFailuresWithoutAHandlerAreAnsweredAlike: after a panic, for an endless header, and for a connection over the limit.
func TestFailuresWithoutAHandlerAreAnsweredAlike(t *testing.T) {
	cfg := Config{Config: endpoint.Config{PublicURL: "http://quire.example", In: httpin.Config{HeaderTimeout: 100 * time.Millisecond}}}
	_, addr := startServer(t, cfg, func(s *Server) {
		s.http.Handle("GET", "/panic", func(*fiber.Ctx) error { panic("on purpose") })
		s.http.Handle("GET", "/terminal/panic", s.Handler(&endpoint.Row{Method: "GET", Path: "/terminal/panic", Who: endpoint.Anybody, Rules: endpoint.Terminal, Handle: func(*endpoint.Call) error {
			panic("on purpose")
		}}))
	})
	check := func(a endpointtest.Answer, kind fault.Kind) {
		t.Helper()
		var body struct{ Reason, Code, RequestID, Docs string }
		if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
			t.Fatalf("%q: %v", a.Body, err)
		}
		if a.Status != kind.Status() || body.Code != string(kind) || body.Reason == "" || body.Docs != "http://quire.example/docs/errors#"+body.Code {
			t.Errorf("%d %s, want %s", a.Status, a.Body, kind)
		}
		if id := a.Header.Get("X-Request-Id"); body.RequestID != id || len(id) != 36 {
			t.Errorf("X-Request-Id is %q in %s", id, a.Body)
		}
	}
	check(endpointtest.Exchange(t, addr, "GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0], fault.Internal)
	check(endpointtest.Exchange(t, addr, "GET /panic HTT", 1)[0], fault.RequestTimeout)
	a := endpointtest.Exchange(t, addr, "GET /terminal/panic HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.Status != 500 || a.Body != "error: "+httperr.InternalMessage+"\n" || a.Header.Get("X-Request-Id") == "" {
		t.Errorf("%d %q", a.Status, a.Body)
	}
	cfg.In.MaxConns = 1
	_, addr = startServer(t, cfg, func(*Server) {})
	held, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if _, err := held.Write([]byte("GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := http.ReadResponse(bufio.NewReader(held), nil); err != nil {
		t.Fatal(err)
	}
	check(endpointtest.Exchange(t, addr, "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0], fault.Unavailable)
}
