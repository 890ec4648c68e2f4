package httpin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// startServer serves the routes that setup adds and returns the address.
func startServer(t *testing.T, cfg Config, setup func(*Server)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return startServerOn(t, cfg, ln, setup)
}

func startServerOn(t testing.TB, cfg Config, ln net.Listener, setup func(*Server)) string {
	t.Helper()
	cfg.NewRequestID = func() string { return "the id" }
	cfg.Fail = failAsJSON
	s := New(cfg)
	setup(s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return ln.Addr().String()
}

func noRoutes(*Server) {}

func failAsJSON(ctx *fasthttp.RequestCtx, _ string, err error) {
	e := &httperr.Error{Status: 500, Code: httperr.CodeInternal, Message: err.Error()}
	errors.As(err, &e)
	ctx.SetStatusCode(e.Status)
	ctx.SetContentType(fiber.MIMEApplicationJSON)
	if e.RetryAfter > 0 {
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, fmt.Sprint(e.RetryAfter))
	}
	body, err := json.Marshal(map[string]string{"code": e.Code, "reason": e.Message})
	if err != nil {
		panic(err)
	}
	ctx.SetBody(body)
}

// echo answers with the body it read.
func echo(s *Server, limit Limit) fiber.Handler {
	return func(c *fiber.Ctx) error {
		b, err := s.ReadBody(c, limit)
		if err != nil {
			return err
		}
		return c.JSON(map[string]any{"size": len(b), "body": string(b[:min(len(b), 100)])})
	}
}

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
	c.SetDeadline(time.Now().Add(20 * time.Second))
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

func TestEveryFailureIsAnsweredByFailWithARequestID(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("GET", "/there", echo(s, Limit{10, "10 bytes"}))
		s.Handle("POST", "/there", echo(s, Limit{10, "10 bytes"}))
		s.Handle("GET", "/panic", func(*fiber.Ctx) error { panic("on purpose") })
	})
	for _, tc := range []struct {
		name, raw, code string
		status          int
		allow           string
	}{
		{"unknown path", "GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", "not_found", 404, ""},
		{"wrong method", "PUT /there HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "method_not_allowed", 405, "GET, HEAD, POST, OPTIONS"},
		{"unknown method", "BREW /there HTTP/1.1\r\nHost: a\r\n\r\n", "method_not_allowed", 405, "GET, HEAD, POST, OPTIONS"},
		{"no HTTP", "hello\r\n\r\n", "malformed", 400, ""},
		{"header too large", "GET / HTTP/1.1\r\nX: " + strings.Repeat("a", 9<<10) + "\r\n\r\n", "headers_too_large", 431, ""},
		{"panic", "GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", "internal", 500, ""},
		{"body too large", "POST /there HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n12345678901", "too_large", 413, ""},
		{"two lengths", "POST /there HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12", "malformed", 400, ""},
		{"length and chunks", "POST /there HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "malformed", 400, ""},
		{"no host", "GET /there HTTP/1.1\r\n\r\n", "malformed", 400, ""},
		{"header without colon", "GET /there HTTP/1.1\r\nHost: a\r\nAbc\r\n\r\n", "malformed", 400, ""},
		{"two hosts", "GET /there HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "malformed", 400, ""},
		{"NUL in a header", "GET /there HTTP/1.1\r\nHost: a\r\nA: b\x00c\r\n\r\n", "malformed", 400, ""},
		{"CR in a header", "GET /there HTTP/1.1\r\nHost: a\r\nA: b\rc: d\r\n\r\n", "malformed", 400, ""},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "malformed", 400, ""},
		{"HTTP/1.2", "GET /there HTTP/1.2\r\nHost: a\r\n\r\n", "malformed", 400, ""},
		{"no version", "GET /there\r\nHost: a\r\n\r\n", "malformed", 400, ""},
		{"folded header", "GET /there HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", "malformed", 400, ""},
		{"bad chunk", "POST /there HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", "malformed", 400, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := exchange(t, addr, tc.raw, 1)[0]
			var body struct{ Reason, Code string }
			if err := json.Unmarshal([]byte(a.body), &body); err != nil {
				t.Fatalf("%q: %v", a.body, err)
			}
			if a.status != tc.status || body.Code != tc.code || body.Reason == "" {
				t.Errorf("got %d %s", a.status, a.body)
			}
			if got := a.header.Get("Allow"); got != tc.allow {
				t.Errorf("Allow %q, want %q", got, tc.allow)
			}
			if a.header.Get("X-Request-Id") != "the id" || !strings.HasPrefix(a.header.Get("Content-Type"), "application/json") {
				t.Errorf("headers %v", a.header)
			}
		})
	}
}

// TestABodyThatEndsEarlyIsNotTakenForWhole: if a client closes its half of the connection in the middle of a body, its first
// part must not be stored.
func TestABodyThatEndsEarlyIsNotTakenForWhole(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("POST", "/there", echo(s, Limit{1 << 20, "1 MB"}))
	})
	for _, length := range []int{6, 200_000} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(c, "POST /there HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\nhello", length); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != 400 || !bytes.Contains(body, []byte(`"malformed"`)) {
			t.Errorf("5 of %d bytes: %d %s", length, res.StatusCode, body)
		}
	}
}

func TestRequestsFollowEachOtherOnOneConnection(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("POST", "/echo", echo(s, Limit{1 << 20, "1 MB"}))
		s.Handle("POST", "/ignore", func(c *fiber.Ctx) error { return c.JSON(map[string]any{"success": true}) })
	})
	raw := "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nfirst" +
		"\r\n\r\nPOST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nsec\r\n3\r\nond\r\n0\r\nX-Trailer: 1\r\n\r\n" +
		"POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nskip" +
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n" +
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlast"
	answers := exchange(t, addr, raw, 5)
	for i, want := range []string{`"first"`, `"second"`, `"success"`, `"body":""`, `"last"`} {
		if answers[i].status != 200 || !strings.Contains(answers[i].body, want) {
			t.Errorf("answer %d: %d %s, want %s", i+1, answers[i].status, answers[i].body, want)
		}
	}
}

func TestExpectContinueIsAnsweredOnlyWhenTheBodyIsWanted(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("POST", "/echo", echo(s, Limit{10, "10 bytes"}))
	})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(c, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q %v", line, err)
	}
	r.ReadString('\n')
	fmt.Fprint(c, "hello")
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("%v %v", res, err)
	}
	refused := exchange(t, addr, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 50\r\n\r\n", 1)[0]
	if refused.status != 413 {
		t.Errorf("got %d before the body, want 413", refused.status)
	}
}

func TestAClientThatIsStillSendingCanReadThe413(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("POST", "/echo", echo(s, Limit{1 << 10, "1 KB"}))
	})
	for _, length := range []int64{40 << 20, -1} {
		body := io.Reader(bytes.NewReader(make([]byte, 40<<20)))
		if length < 0 {
			body = io.MultiReader(body) // of unknown length: chunked
		}
		res, err := http.Post("http://"+addr+"/echo", "text/plain", body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 413 || !strings.Contains(string(answer), "1 KB") {
			t.Errorf("%d %s %v", res.StatusCode, answer, err)
		}
	}
}

func TestConnectionsBeyondTheBoundAreToldSo(t *testing.T) {
	addr := startServer(t, Config{MaxConns: 2}, noRoutes)
	for range 2 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if res, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || res.StatusCode != 404 {
			t.Fatalf("%v %v", res, err)
		}
	}
	a := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, `"unavailable"`) {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
}

func TestOneSourceCannotTakeAllConnections(t *testing.T) {
	for _, tc := range []struct {
		name    string
		trusted []netip.Prefix
		status  int
	}{
		{"a client", nil, 503},
		{"a trusted proxy", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, 404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr := startServer(t, Config{MaxConnsPerSource: 1, TrustedProxies: tc.trusted}, noRoutes)
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Fatal(err)
			}
			if a := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]; a.status != tc.status {
				t.Errorf("%d, want %d", a.status, tc.status)
			}
		})
	}
}

// TestAStopTellsConnectionsThatTheyEnd: a client that keeps a connection busy learns of the shutdown by an answer, and the
// connection does not break.
func TestAStopTellsConnectionsThatTheyEnd(t *testing.T) {
	var c net.Conn
	ended := make(chan error, 1)
	t.Run("served", func(t *testing.T) {
		addr := startServer(t, Config{Drain: time.Hour, StopGrace: time.Hour}, noRoutes)
		var err error
		if c, err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
		begun := make(chan struct{}) // the shutdown would reset a connection that was not accepted yet
		begin := sync.OnceFunc(func() { close(begun) })
		go func() { // a busy client
			defer begin()
			answers := bufio.NewReader(c)
			for {
				fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				res, err := http.ReadResponse(answers, nil)
				if err != nil || res.Close {
					ended <- err
					return
				}
				if _, err := io.Copy(io.Discard, res.Body); err != nil {
					ended <- err
					return
				}
				begin()
			}
		}()
		<-begun
	}) // ending it stops the server, which waits for the client
	defer c.Close()
	if err := <-ended; err != nil {
		t.Errorf("the connection broke: %v", err)
	}
}

func TestAStopDoesNotWaitForIdleConnections(t *testing.T) {
	var fresh, used net.Conn
	t.Run("served", func(t *testing.T) {
		addr := startServer(t, Config{StopGrace: time.Hour, Drain: time.Millisecond}, noRoutes)
		var err error
		if fresh, err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
		if used, err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(used, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := http.ReadResponse(bufio.NewReader(used), nil); err != nil {
			t.Fatal(err)
		}
	}) // ending it stops the server, or not for an hour
	fresh.Close()
	used.Close()
}

func TestOptionsAndHead(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("GET", "/there", echo(s, Limit{10, "10 bytes"}))
	})
	a := exchange(t, addr, "OPTIONS /there HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.status != 204 || a.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("%d %v", a.status, a.header)
	}
	res, err := http.Head("http://" + addr + "/there")
	if err != nil || res.StatusCode != 200 || res.ContentLength <= 0 {
		t.Errorf("%v %v", res, err)
	}
}

func TestANameIsAPathThatNoRouteHas(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("GET", "/there", echo(s, Limit{10, "10 bytes"}))
		s.Handle("GET", "/folder/:name", echo(s, Limit{10, "10 bytes"}))
		s.HandleName("PUT", func(c *fiber.Ctx) error { return c.SendString("named " + c.Path()) })
	})
	for _, test := range []struct {
		request string
		status  int
		body    string
	}{
		{"PUT /main.go", 200, "named /main.go"},
		{"PUT /a%2Fb", 200, "named /a%2Fb"},
		{"PUT /.profile", 200, "named /.profile"},
		{"PUT /there", 405, ""},
		{"PUT /folder/main.go", 405, ""},
		{"PUT /", 404, ""},
		{"PUT /.", 404, ""},
		{"PUT /..", 404, ""},
		{"PUT /a/", 404, ""},
		{"PUT //a", 404, ""},
		{"PUT /other/main.go", 404, ""},
		{"GET /main.go", 404, ""},
		{"POST /main.go", 404, ""},
		{"OPTIONS /main.go", 404, ""},
	} {
		a := exchange(t, addr, test.request+" HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
		if a.status != test.status || test.body != "" && a.body != test.body {
			t.Errorf("%s: %d %s, want %d", test.request, a.status, a.body, test.status)
		}
	}
}

func TestSlowClientsAreNotWaitedFor(t *testing.T) {
	addr := startServer(t, Config{IdleTimeout: 300 * time.Millisecond, HeaderTimeout: 100 * time.Millisecond, BodyTimeout: 100 * time.Millisecond},
		func(s *Server) { s.Handle("POST", "/echo", echo(s, Limit{1 << 20, "1 MB"})) })
	for name, raw := range map[string]string{
		"header": "POST /echo HTTP/1.1\r\nHost: a\r\nX: ",
		"body":   "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
		"chunks": "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	} {
		a := exchange(t, addr, raw, 1)[0]
		if a.status != 408 || !strings.Contains(a.body, `"request_timeout"`) || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("an idle connection gave %d bytes, %v", n, err)
	}
}

func TestARunningRequestIsFinishedAtAStop(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	var addr string
	stopped := make(chan error, 1)
	t.Run("served", func(t *testing.T) {
		a := startServer(t, Config{}, func(s *Server) {
			s.Handle("GET", "/slow", func(c *fiber.Ctx) error {
				close(started)
				<-finish
				if err := s.Context().Err(); err != nil {
					return err
				}
				return c.JSON(map[string]any{"success": true})
			})
		})
		addr = a
		go func() {
			res, err := http.Get("http://" + addr + "/slow")
			if err == nil && res.StatusCode != 200 {
				err = fmt.Errorf("status %d", res.StatusCode)
			}
			stopped <- err
		}()
		<-started
		go func() {
			for {
				c, err := net.Dial("tcp", addr) // until the listener is closed
				if err != nil {
					break
				}
				c.Close()
			}
			close(finish)
		}()
	}) // ending it stops the server
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestAServerThatIsStoppedBeforeItServesReturns(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() {
		done <- New(Config{NewRequestID: func() string { return "" }, Fail: failAsJSON}).Serve(ctx, ln)
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

// The next three tests show reasons for docs/adr/0006-bodies-are-hidden-from-fasthttp.md.

func TestABodyIsRefusedBeforeItArrives(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) { s.Handle("POST", "/echo", echo(s, Limit{1 << 10, "1 KB"})) })
	for _, raw := range []string{
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\nthe first bytes",
	} {
		if a := exchange(t, addr, raw, 1)[0]; a.status != 413 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}

func TestAnUnreadBodyIsNeverARequest(t *testing.T) {
	var asked atomic.Int64
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("POST", "/ignore", func(*fiber.Ctx) error { return nil })
		s.Handle("GET", "/smuggled", func(*fiber.Ctx) error { asked.Add(1); return nil })
	})
	const smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, padding := range []int{0, 8 << 10, 64 << 10} {
		raw := fmt.Sprintf("POST /ignore HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s%s", padding+len(smuggled), strings.Repeat("x", padding), smuggled)
		if a := exchange(t, addr, raw, 1)[0]; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d bodies were taken for requests", n)
	}
}

func TestBodiesThatArriveAtOnceStayApart(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) { s.Handle("POST", "/echo", echo(s, Limit{1 << 20, "1 MB"})) })
	const count, size = 8, 16 << 10
	conns := make([]net.Conn, count)
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
		fmt.Fprintf(c, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat(string(rune('a'+i)), size/2))
	}
	for i, c := range conns {
		fmt.Fprint(c, strings.Repeat(string(rune('a'+i)), size/2))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 || !bytes.Contains(body, bytes.Repeat([]byte{byte('a' + i)}, 100)) {
			t.Errorf("body %d: %d %s %v", i, res.StatusCode, body, err)
		}
	}
}
