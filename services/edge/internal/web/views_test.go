package web

import (
	"strings"
	"testing"

	"quire.dev/services/edge/internal/developer"
	"quire.dev/services/edge/internal/endpoint"
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
		a := exchange(t, addr, "GET /try/"+tc.path+" HTTP/1.1\r\nHost: a\r\n"+tc.accept+"\r\n", 1)[0]
		html := strings.HasPrefix(a.header.Get("Content-Type"), "text/html")
		if a.status != tc.status || html != tc.html || html != strings.HasPrefix(a.body, "<!doctype html>") {
			t.Errorf("%s with %q: %d %s %.200s", tc.path, tc.accept, a.status, a.header.Get("Content-Type"), a.body)
		}
		if (a.header.Get("Retry-After") != "") != (tc.status == 503) {
			t.Errorf("%s: Retry-After %q", tc.path, a.header.Get("Retry-After"))
		}
		if html && !strings.Contains(a.body, a.header.Get("X-Request-Id")) {
			t.Errorf("%s does not name its request", tc.path)
		}
	}
}
