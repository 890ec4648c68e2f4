package web

import (
	"strings"
	"testing"

	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

func TestFailuresOfPagesAreHTMLForBrowsersAndJSONForPrograms(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		for _, r := range []endpoint.Row{
			{Path: "/try/missing", Rules: endpoint.Page, Handle: func(*endpoint.Call) error { return endpoint.NotFound() }},
			{Path: "/try/busy", Rules: endpoint.Page, Handle: func(*endpoint.Call) error { return endpoint.Unavailable(developer.ErrReadRace) }},
			{Path: "/try/raw", Rules: endpoint.Views, Handle: func(*endpoint.Call) error { return endpoint.NotFound() }},
		} {
			s.http.Handle("GET", r.Path, s.Handler(&r))
		}
	})
	const browser = "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"
	for _, tc := range []struct {
		path, accept string
		status       int
		html         bool
	}{
		{"missing", browser, 404, true},
		{"missing", "", 404, false},
		{"missing", "Accept: */*\r\n", 404, false},
		{"busy", browser, 503, true},
		{"busy", "", 503, false},
		{"raw", browser, 404, false},
	} {
		a := endpointtest.Exchange(t, addr, "GET /try/"+tc.path+" HTTP/1.1\r\nHost: a\r\n"+tc.accept+"\r\n", 1)[0]
		html := strings.HasPrefix(a.Header.Get("Content-Type"), "text/html")
		if a.Status != tc.status || html != tc.html || html != strings.HasPrefix(a.Body, "<!doctype html>") {
			t.Errorf("%s with %q: %d %s %.200s", tc.path, tc.accept, a.Status, a.Header.Get("Content-Type"), a.Body)
		}
		if (a.Header.Get("Retry-After") != "") != (tc.status == 503) {
			t.Errorf("%s: Retry-After %q", tc.path, a.Header.Get("Retry-After"))
		}
		if html && !strings.Contains(a.Body, a.Header.Get("X-Request-Id")) {
			t.Errorf("%s does not name its request", tc.path)
		}
	}
}
