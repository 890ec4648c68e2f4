package web

import (
	"strings"
	"testing"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// TestTheContentHostHasContentAlone calls each route on the content host. Only content routes exist there, and refuse the
// header.
func TestTheContentHostHasContentAlone(t *testing.T) {
	s, addr := startServer(t, Config{Config: endpoint.Config{PublicURL: "https://quire.example", ContentURL: "https://content.example/", AdminTokens: theToken()}}, func(*Server) {})
	rows := 0
	for _, r := range s.routes() {
		path := strings.NewReplacer(":ref", "AAAAAAAAAAAA", ":id", "AAAAAAAAAAAA", ":", "").Replace(r.Path)
		status := func(host string) int {
			return endpointtest.Exchange(t, addr, r.Method+" "+path+" HTTP/1.1\r\nHost: "+host+
				"\r\nAccept: text/html\r\nIf-None-Match: no tag\r\nContent-Length: 0\r\n\r\n", 1)[0].Status
		}
		want := 404
		if r.Rules.Has(endpoint.Content) {
			rows++
			want = 400
			if got := status("quire.example"); got != 400 {
				t.Errorf("%s %s is %d on the public host", r.Method, r.Path, got)
			}
		}
		for _, host := range []string{"content.example", "CONTENT.example:443"} {
			if r.Who != endpoint.Operators {
				if got := status(host); got != want {
					t.Errorf("%s %s is %d on %s, want %d", r.Method, r.Path, got, host, want)
				}
			}
		}
	}
	if rows != 7 {
		t.Errorf("%d routes are on the content host", rows)
	}
	for _, path := range []string{"/nothing", "/api/nothing", "/console/nothing"} {
		a := endpointtest.Exchange(t, addr, "GET "+path+" HTTP/1.1\r\nHost: content.example\r\nAccept: text/html\r\n\r\n", 1)[0]
		if a.Status != 404 || !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %d %v", path, a.Status, a.Header)
		}
	}
	for _, path := range []string{"/", "/docs", "/console/sign-up"} {
		a := endpointtest.Exchange(t, addr, "GET "+path+" HTTP/1.1\r\nHost: content.example\r\nX-Forwarded-Host: quire.example\r\nAccept: text/html\r\n\r\n", 1)[0]
		if a.Status != 404 {
			t.Errorf("%s is %d on the content host where a client names another host", path, a.Status)
		}
	}
	if s.ContentURL("/p/x/raw") != "https://content.example/p/x/raw" || s.ContentBase() != "https://content.example" {
		t.Errorf("content is linked at %s", s.ContentURL(""))
	}
}

func TestWithoutAContentHostContentIsOnThePublicOne(t *testing.T) {
	s := New(Config{Config: endpoint.Config{PublicURL: "https://quire.example"}}, Deps{})
	if s.ContentURL("/p/x/raw") != "/p/x/raw" || s.ContentBase() != "https://quire.example" {
		t.Errorf("content is linked at %q", s.ContentURL(""))
	}
}
