package web

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// TestAHeaderThatIsReadIsSentOnce: a proxy in front might read the other one. It applies to every path and spelling.
func TestAHeaderThatIsReadIsSentOnce(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	for _, name := range endpoint.SingleHeaders() {
		for _, path := range []string{"/", "/docs", "/nowhere", "/api/dev/pastes/list"} {
			raw := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\n%s: a\r\n%s: a\r\n\r\n", path, name, strings.ToLower(name))
			a := endpointtest.Exchange(t, addr, raw, 1)[0]
			var failure struct{ Code, Field, RequestID string }
			if err := json.Unmarshal([]byte(a.Body), &failure); err != nil {
				t.Fatalf("%s: %q: %v", name, a.Body, err)
			}
			if a.Status != 400 || failure.Code != "malformed" || failure.Field != name || failure.RequestID == "" {
				t.Errorf("%s at %s: %d %s", name, path, a.Status, a.Body)
			}
		}
		if a := endpointtest.Exchange(t, addr, "GET /llms.txt HTTP/1.1\r\nHost: a\r\n"+name+":\r\n\r\n", 1)[0]; strings.Contains(a.Body, "more than one") {
			t.Errorf("one %s: %s", name, a.Body)
		}
	}
	for _, lists := range []string{
		"Accept: text/html\r\nAccept: */*", "Cookie: a=b\r\nCookie: c=d", "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2",
		"If-None-Match: \"a\"\r\nIf-None-Match: \"b\"", "Connection: a\r\nConnection: b", "X-Other: a\r\nX-Other: b",
	} {
		if a := endpointtest.Exchange(t, addr, "GET /llms.txt HTTP/1.1\r\nHost: a\r\n"+lists+"\r\n\r\n", 1)[0]; a.Status != 200 {
			t.Errorf("%q: %d %s", lists, a.Status, a.Body)
		}
	}
}

// TestAFailureOfAnOperatorsPathHasARequestID, and keeps its handler's members.
func TestAFailureOfAnOperatorsPathHasARequestID(t *testing.T) {
	for body, want := range map[string]string{
		`{"success":false,"reason":"Not ready: x","code":"unavailable","failing":[{"name":"x"}]}`: `"code":"unavailable","requestId":"%s","docs":"http://%s/docs/errors#unavailable","failing":[{"name":"x"}]}`,
		"an error has occurred": `"code":"internal","requestId":"%s","docs":"http://%s/docs/errors#internal"}`,
	} {
		_, addr := startServer(t, Config{}, func(s *Server) {
			s.ops = func(ctx *fasthttp.RequestCtx) {
				ctx.SetStatusCode(503)
				ctx.SetBodyString(body)
			}
			s.http.Handle("GET", "/readyz", s.Handler(&endpoint.Row{Method: "GET", Path: "/readyz", Who: endpoint.Operators, Rules: endpoint.AnyQuery, Handle: s.operate}))
		})
		a := endpointtest.Exchange(t, addr, "GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
		if id := a.Header.Get("X-Request-Id"); a.Status < 500 || id == "" || !strings.Contains(a.Body, fmt.Sprintf(want, id, addr)) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if a := endpointtest.Exchange(t, addr, "GET /readyz#x HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]; a.Status != 400 || !strings.Contains(a.Body, `"requestId":"`) {
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
}
