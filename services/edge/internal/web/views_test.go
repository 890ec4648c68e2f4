package web

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/event"
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

// plainHash stands for a keyed one.
func plainHash(network []byte) event.AccountID {
	var b [8]byte
	copy(b[:], network)
	return event.AccountID(binary.BigEndian.Uint64(b[:])) + event.AccountID(len(network))
}

func TestViewsOfAnIPv6SiteAreLimited(t *testing.T) {
	l, now := newViewLimit(plainHash), time.Now()
	address := func(site, source byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0, site, 0, source})
	}
	for i := range sitesViews {
		if err := l.admit(address(1, byte(i%200)), now); err != nil {
			t.Fatalf("view %d of the site: %v", i+1, err)
		}
	}
	if err := l.admit(address(1, 250), now); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("one too many of the site: %v", err)
	}
	for i := range viewsPerMinute {
		if err := l.admit(address(2, 1), now); err != nil {
			t.Fatalf("view %d of another site: %v", i+1, err)
		}
	}
	if err := l.admit(address(2, 1), now); fault.KindOf(err) != fault.RateLimited {
		t.Errorf("one too many of a source: %v", err)
	}
	if err := l.admit(address(2, 2), now); err != nil {
		t.Errorf("another source of that site: %v", err)
	}
}

// TestViewsAreLimitedOverAllEdges: three edges that hear of each other answer no more than one alone does, once they have
// heard; what they answered before is made up for.
func TestViewsAreLimitedOverAllEdges(t *testing.T) {
	now, source := time.Now(), netip.MustParseAddr("2001:db8::1")
	edges := []*viewLimit{newViewLimit(plainHash), newViewLimit(plainHash), newViewLimit(plainHash)}
	tell := func() {
		for from, edge := range edges {
			sources, sites := edge.sources.untold(), edge.sites.untold()
			for to, other := range edges {
				if to != from {
					other.sources.heard(sources, now)
					other.sites.heard(sites, now)
				}
			}
		}
	}
	answered := 0
	for second := range 600 {
		for _, edge := range edges {
			for edge.admit(source, now) == nil {
				answered++
			}
		}
		if second == 0 && answered != len(edges)*viewsPerMinute {
			t.Errorf("%d views before they are told", answered)
		}
		tell()
		now = now.Add(time.Second)
	}
	if most := viewsPerMinute * (10 + len(edges)); answered > most {
		t.Errorf("%d views in 10 minutes, want %d at most", answered, most)
	}
	if least := viewsPerMinute * 9; answered < least {
		t.Errorf("%d views in 10 minutes, want %d", answered, least)
	}
	if sources, sites := edges[0].sources.untold(), edges[0].sites.untold(); len(sources)+len(sites) > 0 {
		t.Errorf("told twice: %v, %v", sources, sites)
	}
}

func TestViewsAreLimitedBySource(t *testing.T) {
	l, now := newViewLimit(plainHash), time.Now()
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
	l, now := newViewLimit(plainHash), time.Now()
	for i := range 2 * ratesKept {
		if err := l.admit(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now); err != nil {
			t.Fatal(err)
		}
	}
	l.sources.callers.CleanUp()
	if n := l.sources.callers.EstimatedSize(); n > ratesKept {
		t.Errorf("%d sources are remembered", n)
	}
}

// TestChangesOfAnAccountAreLimited: to so many at once, to one a minute after that, over all edges.
func TestChangesOfAnAccountAreLimited(t *testing.T) {
	now := time.Now()
	one, other := newRates(changesPerMinute/60.0, changesAtOnce), newRates(changesPerMinute/60.0, changesAtOnce)
	for n := range changesAtOnce {
		if one.admit(1, now) != 0 {
			t.Fatalf("change %d is refused", n+1)
		}
	}
	if one.admit(2, now) != 0 {
		t.Error("another account is limited too")
	}
	other.heard(one.untold(), now)
	for name, edge := range map[string]*rates{"this": one, "another": other} {
		for after, want := range map[time.Duration]int{0: 60, 30 * time.Second: 30, 59 * time.Second: 1} {
			if seconds := edge.admit(1, now.Add(after)); seconds < want || seconds > want+1 {
				t.Errorf("%s edge after %s: wait %d s, want %d", name, after, seconds, want)
			}
		}
		later := now.Add(61 * time.Second)
		if edge.admit(1, later) != 0 || edge.admit(1, later) == 0 {
			t.Errorf("%s edge after a minute: not one more", name)
		}
	}
}
