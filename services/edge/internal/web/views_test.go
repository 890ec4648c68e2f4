package web

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"quire.dev/services/edge/internal/fault"
)

func TestFailuresOfPagesAreHTMLForBrowsersAndJSONForPrograms(t *testing.T) {
	_, addr := startServer(t, Config{}, func(s *Server) {
		for _, r := range []route{
			{path: "/try/missing", rules: page, handle: func(*call) error { return notFound() }},
			{path: "/try/busy", rules: page, handle: func(*call) error { return unavailable(errReadRace) }},
			{path: "/try/raw", rules: views, handle: func(*call) error { return notFound() }},
		} {
			s.http.Handle("GET", r.path, s.serve(&r))
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
