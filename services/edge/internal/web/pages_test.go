package web

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

const hostile = `<script>alert("x")</script>'"><img src=x onerror=alert(1)>{{.}}`

// TestWhatSomebodyWroteIsNeverMarkup renders every page with hostile text in every field.
func TestWhatSomebodyWroteIsNeverMarkup(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		p := newPages(s)
		doc := &event.Document{
			Id: hostile, Title: hostile, Language: hostile, Tags: []string{hostile}, ContentType: hostile, CreatedMs: 1,
			Content: &event.Content{Inline: []byte(hostile), SizeBytes: uint64(len(hostile))},
		}
		s.http.Handle("GET", "/try/text", func(c *fiber.Ctx) error { return p.showContent(c, pasteKind(), doc) })
		s.http.Handle("GET", "/try/burned", func(c *fiber.Ctx) error { return p.showBurned(c, doc, []byte(hostile)) })
		s.http.Handle("GET", "/try/ask", func(c *fiber.Ctx) error { return p.ask(c, pasteKind(), doc, true) })
		s.http.Handle("GET", "/try/file", func(c *fiber.Ctx) error {
			return p.render(c, 200, "file", filePage{pageHead: p.head(hostile), Size: hostile, Type: hostile, SHA256: hostile, Created: hostile, Expires: hostile, Raw: hostile})
		})
		s.http.Handle("GET", "/try/failure", p.people(func(*fiber.Ctx) error { return fault.New(fault.InvalidField, "%s", hostile) }))
	})
	for _, name := range []string{"text", "burned", "ask", "file", "failure"} {
		a := exchange(t, addr, "GET /try/"+name+" HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n", 1)[0]
		for _, markup := range []string{"<script", "<img", "alert(\"x\")", `'">`} {
			if strings.Contains(a.body, markup) {
				t.Errorf("%s: %q is in\n%s", name, markup, a.body)
			}
		}
		if name != "ask" && !strings.Contains(a.body, "&lt;script&gt;") {
			t.Errorf("%s does not show the text:\n%s", name, a.body)
		}
		checkProtected(t, name, a)
	}
}

// checkProtected holds a page to its headers: one style sheet, by its hash, and nothing else.
func checkProtected(t *testing.T, name string, a rawAnswer) {
	t.Helper()
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(a.body)
	if style == nil {
		t.Fatalf("%s: no style in %s", name, a.body)
	}
	sum := sha256.Sum256([]byte(style[1]))
	policy := a.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s: %s is not in the policy %s", name, want, policy)
		}
	}
	if strings.Contains(a.body, "style=") || strings.Contains(a.body, "<script") {
		t.Errorf("%s has what its policy forbids", name)
	}
	for header, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		"Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := a.header.Get(header); got != want {
			t.Errorf("%s: %s is %q, want %q", name, header, got, want)
		}
	}
}

func TestFailuresOfPagesAreHTMLForBrowsersAndJSONForPrograms(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		p := newPages(s)
		s.http.Handle("GET", "/try/missing", p.people(func(*fiber.Ctx) error { return notFound() }))
		s.http.Handle("GET", "/try/busy", p.people(func(*fiber.Ctx) error { return unavailable(errReadRace) }))
		s.http.Handle("GET", "/try/raw", p.programs(func(*fiber.Ctx) error { return notFound() }))
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

func TestATextThatBeginsWithALineBreakKeepsIt(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		p := newPages(s)
		doc := &event.Document{Content: &event.Content{Inline: []byte("\n\nx"), SizeBytes: 3}}
		s.http.Handle("GET", "/try", func(c *fiber.Ctx) error { return p.showContent(c, pasteKind(), doc) })
	})
	a := exchange(t, addr, "GET /try HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if !strings.Contains(a.body, "<pre><code>\n\nx</code></pre>") { // a browser drops one that follows <pre> itself
		t.Errorf("%s", a.body)
	}
}

func TestViewsAreLimitedBySource(t *testing.T) {
	l, now := newViewLimit(), time.Now()
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for i := range viewsPerMinute {
		if err := l.admit(one, now); err != nil {
			t.Fatalf("view %d: %v", i+1, err)
		}
	}
	err := l.admit(one, now)
	var e *fault.Error
	if fault.KindOf(err) != fault.RateLimited || fault.RateLimited.Status() != 429 {
		t.Errorf("one too many: %v", err)
	} else if errors.As(err, &e) && e.RetryAfter < 1 {
		t.Errorf("Retry-After %d", e.RetryAfter)
	}
	if err := l.admit(other, now); err != nil {
		t.Errorf("another source: %v", err)
	}
	later := now.Add(time.Minute)
	for i := range viewsPerMinute {
		if err := l.admit(one, later); err != nil {
			t.Fatalf("view %d of the next minute: %v", i+1, err)
		}
	}
	if err := l.admit(one, later); err == nil {
		t.Error("one too many in the next minute")
	}
}

func TestTheMemoryOfSourcesIsBounded(t *testing.T) {
	l, now := newViewLimit(), time.Now()
	for i := range 2 * viewSources {
		if err := l.admit(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now); err != nil {
			t.Fatal(err)
		}
	}
	l.sources.CleanUp()
	if n := l.sources.EstimatedSize(); n > viewSources {
		t.Errorf("%d sources are remembered", n)
	}
}

func TestSizesAndDates(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 bytes", 1: "1 byte", 1023: "1023 bytes", 1024: "1.0 KiB", 1536: "1.5 KiB", 50 << 20: "50.0 MiB"} {
		if got := sizeText(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if got := dateText(1_795_226_580_000); got != "21 November 2026, 02:03 UTC" || dateText(0) != "" {
		t.Error(got)
	}
}

func TestTheDescriptionIsServed(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := exchange(t, addr, "GET /docs/openapi.yaml HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.status != 200 || a.body != string(openapiSource) || !strings.HasPrefix(a.header.Get("Content-Type"), "application/yaml") {
		t.Errorf("%d %v %.100s", a.status, a.header, a.body)
	}
	again := exchange(t, addr, fmt.Sprintf("GET /docs/openapi.yaml HTTP/1.1\r\nHost: a\r\nIf-None-Match: %s\r\n\r\n", a.header.Get("ETag")), 1)[0]
	if again.status != 304 || again.body != "" || again.header.Get("ETag") != a.header.Get("ETag") {
		t.Errorf("%d %v", again.status, again.header)
	}
}

func TestTheReferenceHasEveryOperation(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := exchange(t, addr, "GET /docs HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	checkProtected(t, "reference", a)
	for path, item := range loadSpec(t).Paths.Map() {
		for method := range item.Operations() {
			if !strings.Contains(a.body, "<code>"+method+" "+path+"</code>") {
				t.Errorf("%s %s is not in the reference", method, path)
			}
		}
	}
	if strings.Contains(a.body, "`") {
		t.Error("a backtick was not set as code")
	}
}
