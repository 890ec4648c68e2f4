package web

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
	"quire.dev/services/edge/internal/httpin"
)

func TestTheSessionCookieIsSecureBehindTLSOnly(t *testing.T) {
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	// Behind TLS its name has the prefix with which browsers keep other hosts of the site from setting it.
	for _, tc := range []struct {
		name   string
		cfg    Config
		header string
		secure bool
	}{
		{"plain", Config{}, "", false},
		{"a stranger says https", Config{}, "X-Forwarded-Proto: https\r\n", false},
		{"a trusted proxy says https", Config{Config: endpoint.Config{In: httpin.Config{TrustedProxies: loopback}}}, "X-Forwarded-Proto: https\r\n", true},
		{"a trusted proxy says http", Config{Config: endpoint.Config{In: httpin.Config{TrustedProxies: loopback}}}, "X-Forwarded-Proto: http\r\n", false},
		{"the public address is https", Config{Config: endpoint.Config{PublicURL: "https://paste.example"}}, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, addr := startServer(t, tc.cfg, func(*Server) {})
			a := endpointtest.Exchange(t, addr, "POST /api/users/logout HTTP/1.1\r\nHost: a\r\n"+tc.header+"Content-Length: 0\r\n\r\n", 1)[0]
			cookies := (&http.Response{Header: a.Header}).Cookies()
			if a.Status != 200 || len(cookies) != 1 {
				t.Fatalf("%d %s %v", a.Status, a.Body, a.Header)
			}
			c := cookies[0]
			name := "quire_session"
			if tc.secure {
				name = "__Host-quire_session"
			}
			if c.Name != name || c.Domain != "" || c.Secure != tc.secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Value != "" || !c.Expires.Before(time.Now()) {
				t.Errorf("%v", a.Header["Set-Cookie"])
			}
		})
	}
}

func TestACookieThatThisServerDidNotMakeIsNoSession(t *testing.T) {
	// Nobody answers on the bus here: what passes the signature check ends as 503.
	_, addr := startServer(t, Config{}, func(*Server) {})
	short := theSecret(t).SignSession([]byte("short"))
	whole := theSecret(t).SignSession(make([]byte, 32))
	for _, cookie := range []string{"x", "a.b", short, whole[:len(whole)-1], whole + "A", "%00"} {
		a := endpointtest.Exchange(t, addr, "GET /api/users/user HTTP/1.1\r\nHost: a\r\nCookie: quire_session="+cookie+"\r\n\r\n", 1)[0]
		if a.Status != 401 || !strings.Contains(a.Body, `"session_required"`) {
			t.Errorf("%q: %d %s", cookie, a.Status, a.Body)
		}
	}
	a := endpointtest.Exchange(t, addr, "GET /api/users/user HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.Status != 401 || !strings.Contains(a.Body, `"api_key_required"`) {
		t.Errorf("without a cookie: %d %s", a.Status, a.Body)
	}
}

// TestASessionIsReadByTheNameOfItsCookie: behind TLS only by the name that no other host can set, and by that one nowhere
// else.
func TestASessionIsReadByTheNameOfItsCookie(t *testing.T) {
	for _, tc := range []struct{ url, read, ignored string }{
		{"https://paste.example", "__Host-quire_session", "quire_session"},
		{"http://paste.example", "quire_session", "__Host-quire_session"},
	} {
		_, addr := startServer(t, Config{Config: endpoint.Config{PublicURL: tc.url}}, func(*Server) {})
		for name, code := range map[string]string{tc.read: "session_required", tc.ignored: "api_key_required"} {
			a := endpointtest.Exchange(t, addr, "GET /api/users/user HTTP/1.1\r\nHost: a\r\nCookie: "+name+"=x\r\n\r\n", 1)[0]
			if a.Status != 401 || !strings.Contains(a.Body, `"`+code+`"`) {
				t.Errorf("%s with %s: %d %s, want %s", tc.url, name, a.Status, a.Body, code)
			}
		}
	}
}

// TestTheAdminListenerHasTheAdminPathsAlone, and with it the other one has none of them in any method.
func TestTheAdminListenerHasTheAdminPathsAlone(t *testing.T) {
	s, admins := startServer(t, Config{Config: endpoint.Config{AdminTokens: theToken()}, AdminOnly: true}, func(*Server) {})
	_, public := startServer(t, Config{}, func(*Server) {})
	for _, r := range s.routes() {
		path := strings.NewReplacer(":", "").Replace(r.Path)
		for addr, exists := range map[string]bool{admins: r.ForAdmins() || r.Path == assetPath, public: !r.ForAdmins()} {
			if !exists && (addr != public || r.Who != endpoint.Operators) {
				a := endpointtest.Exchange(t, addr, r.Method+" "+path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token\r\nAccept: text/html\r\nContent-Length: 0\r\n\r\n", 1)[0]
				if a.Status != 404 {
					t.Errorf("%s %s: %d %.200s", r.Method, path, a.Status, a.Body)
				}
			}
		}
	}
	a := endpointtest.Exchange(t, admins, "GET /api/admin/accounts/nobody HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token\r\n\r\n", 1)[0]
	if a.Status != 404 || !strings.Contains(a.Body, "belongs to another account") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	a = endpointtest.Exchange(t, admins, "OPTIONS /api/dev/pastes/create HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n\r\n", 1)[0]
	if a.Status != 404 {
		t.Errorf("a preflight: %d %s", a.Status, a.Body)
	}
}

func TestWithoutAnAdminTokenTheAdminPathsDoNotExist(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	for _, line := range []string{"POST /api/admin/accounts", "GET /api/admin/accounts", "DELETE /api/admin/audit", "PUT /api/admin/accounts/x/tier"} {
		a := endpointtest.Exchange(t, addr, line+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \r\nContent-Length: 0\r\n\r\n", 1)[0]
		if a.Status != 404 || !strings.Contains(a.Body, `"not_found"`) {
			t.Errorf("%s: %d %s", line, a.Status, a.Body)
		}
	}
}

func TestGuessingTheAdminTokenIsLimitedAndKnowingItIsNot(t *testing.T) {
	_, addr := startServer(t, Config{Config: endpoint.Config{AdminTokens: theToken()}}, func(*Server) {})
	call := func(token string) string {
		return "GET /api/admin/accounts/nobody HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	}
	wrong := endpointtest.Exchange(t, addr, strings.Repeat(call("the tokem"), 100+2), 100+2)
	for i, a := range wrong {
		if want := 401; i <= 100 && a.Status != want {
			t.Fatalf("call %d: %d %s", i+1, a.Status, a.Body)
		}
	}
	last := wrong[len(wrong)-1]
	if last.Status != 429 || last.Header.Get("Retry-After") == "" || !strings.Contains(last.Body, `"too_many_failures"`) {
		t.Errorf("%d %s", last.Status, last.Body)
	}
	if a := endpointtest.Exchange(t, addr, call("the token"), 1)[0]; a.Status != 404 {
		t.Errorf("with the token: %d %s", a.Status, a.Body)
	}
}

func TestDollarsAndCredits(t *testing.T) {
	for cents, want := range map[uint64]string{0: "0.00", 5: "0.05", 99: "0.99", 100: "1.00", 123456: "1234.56"} {
		if got := plan.Dollars(cents); got != want {
			t.Errorf("%d cents are %s", cents, got)
		}
	}
	if got := plan.Credits(uint64(plan.Credit)/2 + 1); got != "0.500001" {
		t.Error(got)
	}
}
