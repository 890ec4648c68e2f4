package web

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"quire.dev/services/edge/internal/render"
)

// maxPageBytes is the weight of a page in all: its HTML with the style sheets in it, and its scripts and image.
const maxPageBytes = 60_000

// TestTheDocumentationIsServed gets every page of it as a browser does: light, kept, and with a policy that allows its own
// scripts only.
func TestTheDocumentationIsServed(t *testing.T) {
	s, addr := startServer(t, Config{PublicURL: "https://paste.example"}, func(*Server) {})
	get := func(path, header string) rawAnswer {
		return exchange(t, addr, "GET "+path+" HTTP/1.1\r\nHost: paste.example:8443\r\n"+header+"\r\n", 1)[0]
	}
	d, err := s.docs()
	if err != nil {
		t.Fatal(err)
	}
	asset := regexp.MustCompile(`(?:src|href)="(/assets/[^"]+)"`)
	weights := make(map[string]int)
	weigh := func(path string) int {
		if weights[path] == 0 {
			weights[path] = len(get(path, "Accept-Encoding: gzip\r\n").body)
		}
		return weights[path]
	}
	pages := 0
	for path := range d.kept {
		plain := get(path, "")
		if plain.status != 200 || plain.header.Get("Cache-Control") != "no-cache" || strings.Contains(plain.body, "http://127.0.0.1:8080") {
			t.Errorf("%s: %d %v", path, plain.status, plain.header)
		}
		weight := weigh(path)
		for _, m := range asset.FindAllStringSubmatch(plain.body, -1) {
			weight += weigh(m[1])
		}
		if strings.HasPrefix(path, "/docs") {
			pages++
			if weight > maxPageBytes {
				t.Errorf("%s weighs %d bytes", path, weight)
			}
			t.Logf("%s: %d bytes", path, weight)
			policy := plain.header.Get("Content-Security-Policy")
			script := regexp.MustCompile(`<script src="(/assets/(?:docs|copy)\.[0-9a-f]{16}\.js)" defer>`).FindAllStringSubmatch(plain.body, -1)
			allowed := "; script-src"
			for _, host := range []string{" paste.example", " paste.example:8443"} {
				for _, m := range script {
					allowed += host + m[1]
				}
			}
			if len(script) != 2 || strings.Count(plain.body, "<script") != 2 || !strings.HasSuffix(policy, allowed) {
				t.Errorf("%s: script %q with the policy %s", path, script, policy)
			}
		}
		for _, coding := range []string{"", "gzip", "br"} {
			accept := "Accept-Encoding: " + coding + "\r\n"
			first := get(path, accept)
			if first.header.Get("Content-Encoding") != coding || first.header.Get("Vary") == "" {
				t.Errorf("%s as %q: %v", path, coding, first.header)
			}
			again := get(path, accept+"If-None-Match: "+first.header.Get("ETag")+"\r\n")
			if again.status != 304 || again.body != "" || again.header.Get("ETag") != first.header.Get("ETag") {
				t.Errorf("%s as %q again: %d %v", path, coding, again.status, again.header)
			}
		}
	}
	if pages < 15 {
		t.Errorf("only %d pages", pages)
	}
	for _, path := range []string{"/docs/api/nothing", "/docs/guides/nothing", "/docs/guides/README"} {
		if a := get(path, "Accept: text/html\r\n"); a.status != 404 || !strings.Contains(a.body, "<!doctype html>") {
			t.Errorf("%s: %d", path, a.status)
		}
	}
	if a := get("/docs", "If-None-Match: x\r\n"); a.status != 400 {
		t.Errorf("a wrong If-None-Match: %d", a.status)
	}
	own := regexp.MustCompile(`; script-src paste\.example/assets/docs\.[0-9a-f]{16}\.js paste\.example/assets/copy\.[0-9a-f]{16}\.js$`)
	for _, header := range []string{
		"Host: paste.example", "Host: PASTE.example", "Host: paste.example\r\nX-Forwarded-Host: evil.example",
	} {
		a := exchange(t, addr, "GET /docs HTTP/1.1\r\n"+header+"\r\n\r\n", 1)[0]
		if policy := a.header.Get("Content-Security-Policy"); !own.MatchString(policy) {
			t.Errorf("%q: policy %s", header, policy)
		}
	}
	for _, host := range []string{"*", "x;script-src", "x 'unsafe-inline'", "x,y"} {
		if a := exchange(t, addr, "GET /docs HTTP/1.1\r\nHost: "+host+"\r\n\r\n", 1)[0]; a.status != 400 {
			t.Errorf("%q: %d", host, a.status)
		}
	}
}

func TestTheDocumentationIsSearched(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	for query, want := range map[string]string{
		"quota_exhausted": `<a href="/docs/errors#quota_exhausted">`,
		"create a paste":  `<a href="/docs/api/pastes#createPaste">`,
		"":                "Operations, fields, errors and guides",
		"xyzzy plugh":     "Nothing has all of these words.",
		`"><script>`:      "&#34;&gt;&lt;script&gt;",
	} {
		a := exchange(t, addr, "GET /docs/search?q="+url.QueryEscape(query)+" HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
		if a.status != 200 || !strings.Contains(a.body, want) || strings.Contains(a.body, `"><script>`) {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	if a := exchange(t, addr, "GET /docs/search?query=x HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]; a.status != 400 || !strings.Contains(a.body, "unknown_field") {
		t.Errorf("an unknown parameter: %d %s", a.status, a.body)
	}
}

// TestTheDocumentationIsHighlightedOnABusyServer: it is made once, so that a snippet that stays plain would stay so.
func TestTheDocumentationIsHighlightedOnABusyServer(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		s.render = render.New(render.Config{Wait: 1, Deadline: 1}) // nothing is done in a nanosecond
	})
	a := exchange(t, addr, "GET /docs/api/pastes HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.status != 200 || !strings.Contains(a.body, `<code class="language-go"><span class="hk">package</span>`) {
		t.Errorf("%d %.3000s", a.status, a.body)
	}
}
