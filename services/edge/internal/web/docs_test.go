package web

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/render"
)

// maxPageBytes is the maximum weight of a page: HTML with its style sheets, scripts and image.
const maxPageBytes = 60_000

// TestTheDocumentationIsServed requests every page as a browser does: it must be light, cacheable, and have a policy that
// allows its own scripts only.
func TestTheDocumentationIsServed(t *testing.T) {
	s, addr := startServer(t, Config{Config: endpoint.Config{PublicURL: "https://paste.example"}}, func(*Server) {})
	get := func(path, header string) endpointtest.Answer {
		return endpointtest.Exchange(t, addr, "GET "+path+" HTTP/1.1\r\nHost: paste.example:8443\r\n"+header+"\r\n", 1)[0]
	}
	d, err := s.docs()
	if err != nil {
		t.Fatal(err)
	}
	asset := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`)
	weights := make(map[string]int)
	weigh := func(path string) int {
		if weights[path] == 0 {
			weights[path] = len(get(path, "Accept-Encoding: gzip\r\n").Body)
		}
		return weights[path]
	}
	pages := 0
	for path := range d.kept {
		plain := get(path, "")
		if plain.Status != 200 || plain.Header.Get("Cache-Control") != "no-cache" || strings.Contains(plain.Body, "http://127.0.0.1:8080") {
			t.Errorf("%s: %d %v", path, plain.Status, plain.Header)
		}
		weight := weigh(path)
		for _, m := range asset.FindAllStringSubmatch(plain.Body, -1) {
			weight += weigh(m[1])
		}
		if strings.HasPrefix(path, "/docs") {
			pages++
			if weight > maxPageBytes {
				t.Errorf("%s weighs %d bytes", path, weight)
			}
			t.Logf("%s: %d bytes", path, weight)
			policy := plain.Header.Get("Content-Security-Policy")
			script := regexp.MustCompile(`<script src="(/assets/(?:site|docs|copy)\.[0-9a-f]{16}\.js)" defer>`).FindAllStringSubmatch(plain.Body, -1)
			head := sha256.Sum256([]byte(regexp.MustCompile(`<script>(.*?)</script>`).FindStringSubmatch(plain.Body)[1]))
			allowed := "; script-src 'sha256-" + base64.StdEncoding.EncodeToString(head[:]) + "'"
			for _, host := range []string{" paste.example", " paste.example:8443"} {
				for _, m := range script {
					allowed += host + m[1]
				}
			}
			if len(script) != 3 || strings.Count(plain.Body, "<script") != 4 || !strings.HasSuffix(policy, allowed) {
				t.Errorf("%s: script %q with the policy %s", path, script, policy)
			}
		}
		for _, coding := range []string{"", "gzip", "br"} {
			accept := "Accept-Encoding: " + coding + "\r\n"
			first := get(path, accept)
			if first.Header.Get("Content-Encoding") != coding || first.Header.Get("Vary") == "" {
				t.Errorf("%s as %q: %v", path, coding, first.Header)
			}
			again := get(path, accept+"If-None-Match: "+first.Header.Get("ETag")+"\r\n")
			if again.Status != 304 || again.Body != "" || again.Header.Get("ETag") != first.Header.Get("ETag") {
				t.Errorf("%s as %q again: %d %v", path, coding, again.Status, again.Header)
			}
		}
	}
	if pages < 15 {
		t.Errorf("only %d pages", pages)
	}
	for _, path := range []string{"/docs/api/nothing", "/docs/guides/nothing", "/docs/guides/README"} {
		if a := get(path, "Accept: text/html\r\n"); a.Status != 404 || !strings.Contains(a.Body, "<!doctype html>") {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
	if a := get("/docs", "If-None-Match: x\r\n"); a.Status != 400 {
		t.Errorf("a wrong If-None-Match: %d", a.Status)
	}
	own := regexp.MustCompile(`; script-src 'sha256-[0-9A-Za-z+/=]{44}' paste\.example/assets/site\.[0-9a-f]{16}\.js paste\.example/assets/docs\.[0-9a-f]{16}\.js paste\.example/assets/copy\.[0-9a-f]{16}\.js$`)
	for _, header := range []string{
		"Host: paste.example", "Host: PASTE.example", "Host: paste.example\r\nX-Forwarded-Host: evil.example",
	} {
		a := endpointtest.Exchange(t, addr, "GET /docs HTTP/1.1\r\n"+header+"\r\n\r\n", 1)[0]
		if policy := a.Header.Get("Content-Security-Policy"); !own.MatchString(policy) {
			t.Errorf("%q: policy %s", header, policy)
		}
	}
	for _, host := range []string{"*", "x;script-src", "x 'unsafe-inline'", "x,y"} {
		if a := endpointtest.Exchange(t, addr, "GET /docs HTTP/1.1\r\nHost: "+host+"\r\n\r\n", 1)[0]; a.Status != 400 {
			t.Errorf("%q: %d", host, a.Status)
		}
	}
}

func TestTheDocumentationIsSearched(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	for query, want := range map[string]string{
		"quota_exhausted": `<a href="/docs/errors#quota_exhausted">`,
		"create a paste":  `<a href="/docs/api/pastes#createPaste">`,
		"":                "Operations, fields, errors and guides",
		"xyzzy plugh":     "No results.",
		`"><script>`:      "&#34;&gt;&lt;script&gt;",
	} {
		a := endpointtest.Exchange(t, addr, "GET /docs/search?q="+url.QueryEscape(query)+" HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
		if a.Status != 200 || !strings.Contains(a.Body, want) || strings.Contains(a.Body, `"><script>`) {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
	if a := endpointtest.Exchange(t, addr, "GET /docs/search?query=x HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]; a.Status != 400 || !strings.Contains(a.Body, "unknown_field") {
		t.Errorf("an unknown parameter: %d %s", a.Status, a.Body)
	}
}

// TestTheDocumentationIsHighlightedOnABusyServer: it is rendered once, so a snippet left plain would stay plain.
func TestTheDocumentationIsHighlightedOnABusyServer(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		s.render = render.New(render.Config{Wait: 1, Deadline: 1}) // nothing finishes within a nanosecond
	})
	a := endpointtest.Exchange(t, addr, "GET /docs/api/pastes HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.Status != 200 || !strings.Contains(a.Body, `<code class="language-go"><span class="hk">package</span>`) {
		t.Errorf("%d %.3000s", a.Status, a.Body)
	}
}
