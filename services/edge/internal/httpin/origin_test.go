package httpin

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
)

func TestClientAddresses(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, tc := range []struct {
		peer      string
		forwarded []string
		want      string
	}{
		{"203.0.113.9", []string{"1.2.3.4"}, "203.0.113.9"},
		{"10.0.0.1", nil, "10.0.0.1"},
		{"10.0.0.1", []string{"1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.1", []string{"6.6.6.6, 1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.1", []string{"6.6.6.6, 1.2.3.4, 10.9.9.9"}, "1.2.3.4"},
		{"10.0.0.1", []string{"6.6.6.6", "1.2.3.4,10.9.9.9"}, "1.2.3.4"},
		{"10.0.0.1", []string{"10.2.2.2"}, "10.2.2.2"},
		{"10.0.0.1", []string{"1.2.3.4, nonsense"}, "10.0.0.1"},
		{"10.0.0.1", []string{"nonsense, 1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.1", []string{""}, "10.0.0.1"},
		{"10.0.0.1", []string{"::ffff:1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.1", []string{"1.2.3.4:5678"}, "1.2.3.4"},
		{"fd00::1", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"fd00::1", []string{"[2001:db8::1]"}, "2001:db8::1"},
	} {
		if got := clientAddr(netip.MustParseAddr(tc.peer), tc.forwarded, trusted); got != netip.MustParseAddr(tc.want) {
			t.Errorf("%s %q: %s, want %s", tc.peer, tc.forwarded, got, tc.want)
		}
	}
	if got := clientAddr(netip.MustParseAddr("10.0.0.1"), []string{"1.2.3.4"}, nil); got.String() != "10.0.0.1" {
		t.Errorf("without trusted proxies: %s", got)
	}
}

// TestTheFirstForwardedRequestIsLogged: an operator sees which address is taken for the client's, and whether it is a
// proxy's.
func TestTheFirstForwardedRequestIsLogged(t *testing.T) {
	for _, tc := range []struct{ trusted, forwarded, level, message, client string }{
		{"127.0.0.0/8", "192.0.2.1", "INFO", "a trusted proxy tells the client's address", "192.0.2.1"},
		{"127.0.0.0/8,10.0.0.0/8", "10.1.2.3", "WARN", "the client's address behind a trusted proxy is a trusted proxy's", "10.1.2.3"},
		{"10.0.0.0/8", "192.0.2.1", "INFO", "X-Forwarded-For is ignored", ""},
		{"", "192.0.2.1", "INFO", "X-Forwarded-For is ignored", ""},
	} {
		var trusted []netip.Prefix
		for _, text := range strings.FieldsFunc(tc.trusted, func(r rune) bool { return r == ',' }) {
			trusted = append(trusted, netip.MustParsePrefix(text))
		}
		var log bytes.Buffer
		t.Run(tc.trusted+" "+tc.forwarded, func(t *testing.T) {
			addr := startServer(t, Config{TrustedProxies: trusted, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(s *Server) {
				s.Handle("GET", "/source", func(c *fiber.Ctx) error { return c.SendString(s.Source(c).String()) })
			})
			exchange(t, addr, "GET /source HTTP/1.1\r\nHost: a\r\n\r\n", 1) // such as a health check
			for range 3 {
				exchange(t, addr, "GET /source HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: "+tc.forwarded+"\r\n\r\n", 1)
			}
		}) // ending it stops the server, which writes the log
		got := log.String()
		if strings.Count(got, tc.message) != 1 || !strings.Contains(got, "level="+tc.level) || !strings.Contains(got, "client="+tc.client) && tc.client != "" ||
			!strings.Contains(got, "peer=127.0.0.1") {
			t.Errorf("trusting %q, %q: the log is\n%s", tc.trusted, tc.forwarded, got)
		}
	}
}

func TestASourceIsAnAddressOrASixtyFour(t *testing.T) {
	for in, want := range map[string]string{
		"1.2.3.4": "1.2.3.4", "::ffff:1.2.3.4": "1.2.3.4", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::", "fe80::1%eth0": "fe80::",
	} {
		if got := sourceOf(netip.MustParseAddr(in)); got.String() != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestTheNetworksOfASource(t *testing.T) {
	for in, want := range map[string][2]string{
		"1.2.3.4":              {"1.2.3.4/32", "1.2.3.0/24"},
		"::ffff:1.2.3.4":       {"1.2.3.4/32", "1.2.3.0/24"},
		"2001:db8:1:2:3:4:5:6": {"2001:db8:1::/48", "2001:db8:1::/48"},
		"2001:db8:1:ffff:3::":  {"2001:db8:1::/48", "2001:db8:1::/48"},
		"2001:db8:2:2:3:4:5:6": {"2001:db8:2::/48", "2001:db8:2::/48"},
	} {
		source := sourceOf(netip.MustParseAddr(in))
		if site, near := Site(source).String(), Neighbourhood(source).String(); site != want[0] || near != want[1] {
			t.Errorf("%s: %s and %s, want %s", in, site, near, want)
		}
	}
	if p := Site(netip.Addr{}); p.IsValid() {
		t.Errorf("no address is of %v", p)
	}
}

func TestWritesComeFromTheSameOrigin(t *testing.T) {
	const host, public = "quire.example:8443", "https://paste.example"
	for _, tc := range []struct {
		site, origin string
		taken        bool
	}{
		{"", "", true}, // not a browser
		{"same-origin", "", true},
		{"none", "", true},
		{"same-origin", "https://anything.example", true}, // a proxy may change the host, but no page this header
		{"same-site", "", false},
		{"cross-site", "", false},
		{"cross-site", public, false},
		{"", public, true},
		{"", "https://PASTE.example", true},
		{"", "http://paste.example", false},
		{"", "https://quire.example:8443", true},
		{"", "https://quire.example", false},
		{"", "https://evil.example", false},
		{"", "https://paste.example.evil.example", false},
		{"", "null", false},
		{"", "file://", false},
		{"", "chrome-extension://paste.example", false},
		{"", "https://paste.example@evil.example", false},
		{"", "%", false},
	} {
		if got := sameOrigin(tc.site, tc.origin, host, public); got != tc.taken {
			t.Errorf("site %q, origin %q: %v", tc.site, tc.origin, got)
		}
	}
}

// TestFiberReadsNoForwardedHeaders: anybody can send them, and fiber knows no trusted proxies.
func TestFiberReadsNoForwardedHeaders(t *testing.T) {
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("GET", "/", func(c *fiber.Ctx) error { return c.SendString(c.Hostname() + " " + c.Protocol()) })
	})
	a := exchange(t, addr, "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: https\r\n\r\n", 1)[0]
	if a.body != "a.example http" {
		t.Errorf("fiber reads %q", a.body)
	}
}
