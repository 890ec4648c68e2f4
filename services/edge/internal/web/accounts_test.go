package web

import (
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/credit"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

func TestEmailAddresses(t *testing.T) {
	for _, good := range []string{
		"a@b", "ann@example.org", "Ann.O'Neil+quire@mail.example.co.uk", "grüße@exämple.de", "1@127.0.0.1",
		strings.Repeat("a", 64) + "@" + strings.Repeat("b", 63) + ".example",
	} {
		if !validEmail(good) {
			t.Errorf("%q was refused", good)
		}
	}
	for _, bad := range []string{
		"", "@", "a", "a@", "@b", "a@b@c", "a b@c", " a@b", "a@b ", "a@b\n", "a\x00@b", "<a@b>", "a@b,c@d", `"a"@b`, "a..b@c", ".a@b", "a.@b",
		"a@b..c", "a@.b", "a@b.", "a@-b", "a@b-", "a@[::1]", "a:b@c", strings.Repeat("a", 65) + "@b", "a@" + strings.Repeat("b", 64), "a\u0085@b", "a\u00a0b@c",
	} {
		if validEmail(bad) {
			t.Errorf("%q was taken", bad)
		}
	}
	long := httpin.Value{Kind: httpin.String, Text: []byte("a@" + strings.Repeat("b.", 127) + "c")}
	if _, err := emailField("email", long); fault.KindOf(err) != fault.InvalidField {
		t.Errorf("an address of %d bytes: %v", len(long.Text), err)
	}
}

func TestPasswordLengthsAreInCharacters(t *testing.T) {
	for password, taken := range map[string]bool{
		"1234567": false, "12345678": true, "пароль12": true, "пароль1": false,
		strings.Repeat("ю", 128): true, strings.Repeat("ю", 129): false, "": false,
	} {
		_, err := accountPasswordField(accountPasswordMin)("password", httpin.Value{Kind: httpin.String, Text: []byte(password)})
		if (err == nil) != taken {
			t.Errorf("%q: %v", password, err)
		}
	}
	if _, err := accountPasswordField(accountPasswordMin)("password", httpin.Value{Kind: httpin.Number, Text: []byte("12345678")}); err == nil {
		t.Error("a number was taken for a password")
	}
}

func TestAmountsAreReadByTheirDigits(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1_000_000, "-1.000001": -1_000_001, "0.1": 100_000, "1000000000": int64(maxGrant), "-1000000000.000000": -int64(maxGrant), "0.000001": 1,
	} {
		for _, k := range []httpin.Kind{httpin.String, httpin.Number} {
			if got, err := amountField("amount", httpin.Value{Kind: k, Text: []byte(text)}); err != nil || got != want {
				t.Errorf("%s: %d, %v; want %d", text, got, err, want)
			}
		}
	}
	for _, text := range []string{
		"", "0", "-0", "0.0000001", "1e3", "1E-6", "NaN", "Infinity", "0x10", "1,5", " 1", "1000000000.000001", "-1000000001", "99999999999999999999999999",
	} {
		if got, err := amountField("amount", httpin.Value{Kind: httpin.String, Text: []byte(text)}); fault.KindOf(err) != fault.InvalidField {
			t.Errorf("%q was read as %d, %v", text, got, err)
		}
	}
	if _, err := amountField("amount", httpin.Value{Kind: httpin.Bool, Text: []byte("true")}); fault.KindOf(err) != fault.InvalidField {
		t.Errorf("true: %v", err)
	}
	if plan.Unlimited != -1 || maxGrant > math.MaxInt64/2 {
		t.Error("amounts could overflow")
	}
}

func TestGrants(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		body string
		kind fault.Kind // "": taken
	}{
		{`{"amount":"1","reason":"r"}`, ""},
		{`{"amount":1.5,"reason":"r","expiresAt":null}`, ""},
		{`{"amount":"1","reason":"r","expiresAt":"2026-11-21T00:00:00.001Z"}`, ""},
		{`{"amount":"1","reason":"` + strings.Repeat("ю", 200) + `"}`, ""},
		{`{"amount":"1","reason":"` + strings.Repeat("ю", 201) + `"}`, fault.InvalidField},
		{`{"amount":"1","reason":" "}`, fault.InvalidField},
		{`{"amount":"1"}`, fault.InvalidField},
		{`{"reason":"r"}`, fault.InvalidField},
		{`{"amount":null,"reason":"r"}`, fault.InvalidField},
		{`{"amount":"1","reason":"a\nb"}`, fault.InvalidField},
		{`{"amount":"1","reason":"r","expiresAt":"2026-11-21T00:00:00Z"}`, fault.InvalidField},
		{`{"amount":"1","reason":"r","expiresAt":1795219200}`, fault.InvalidField},
		{`{"amount":"-1","reason":"r","expiresAt":"2027-01-01T00:00:00Z"}`, fault.InvalidField},
		{`{"amount":"1","reason":"r","expires":"never"}`, fault.UnknownField},
		{`{"amount":"1","amount":"2","reason":"r"}`, fault.Malformed},
		{`[]`, fault.Malformed},
	} {
		_, err := parseGrant([]byte(tc.body), now)
		if err == nil && tc.kind != "" || err != nil && fault.KindOf(err) != tc.kind {
			t.Errorf("%s: %v, want %q", tc.body, err, tc.kind)
		}
	}
}

func TestPeriods(t *testing.T) {
	if start, err := parsePeriod("2026-11"); err != nil || !start.Equal(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", start, err)
	}
	for _, bad := range []string{"", "2026", "2026-13", "2026-00", "2026-1", "26-11", "2026-11-01", "2026/11", "２０２６-11", " 2026-11"} {
		if _, err := parsePeriod(bad); fault.KindOf(err) != fault.InvalidField {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

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
		{"a trusted proxy says https", Config{In: httpin.Config{TrustedProxies: loopback}}, "X-Forwarded-Proto: https\r\n", true},
		{"a trusted proxy says http", Config{In: httpin.Config{TrustedProxies: loopback}}, "X-Forwarded-Proto: http\r\n", false},
		{"the public address is https", Config{PublicURL: "https://paste.example"}, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, addr := startServer(t, tc.cfg, func(*Server) {})
			a := exchange(t, addr, "POST /api/users/logout HTTP/1.1\r\nHost: a\r\n"+tc.header+"Content-Length: 0\r\n\r\n", 1)[0]
			cookies := (&http.Response{Header: a.header}).Cookies()
			if a.status != 200 || len(cookies) != 1 {
				t.Fatalf("%d %s %v", a.status, a.body, a.header)
			}
			c := cookies[0]
			name := "quire_session"
			if tc.secure {
				name = "__Host-quire_session"
			}
			if c.Name != name || c.Domain != "" || c.Secure != tc.secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Value != "" || !c.Expires.Before(time.Now()) {
				t.Errorf("%v", a.header["Set-Cookie"])
			}
		})
	}
}

func TestACookieThatThisServerDidNotMakeIsNoSession(t *testing.T) {
	// Nobody answers on the bus here: what gets past the signature would end as 503.
	s, addr := startServer(t, Config{}, func(*Server) {})
	short := s.secret.SignSession([]byte("short"))
	whole := s.secret.SignSession(make([]byte, 32))
	for _, cookie := range []string{"x", "a.b", short, whole[:len(whole)-1], whole + "A", "%00"} {
		a := exchange(t, addr, "GET /api/users/user HTTP/1.1\r\nHost: a\r\nCookie: quire_session="+cookie+"\r\n\r\n", 1)[0]
		if a.status != 401 || !strings.Contains(a.body, `"session_required"`) {
			t.Errorf("%q: %d %s", cookie, a.status, a.body)
		}
	}
	a := exchange(t, addr, "GET /api/users/user HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.status != 401 || !strings.Contains(a.body, `"api_key_required"`) {
		t.Errorf("without a cookie: %d %s", a.status, a.body)
	}
}

// TestASessionIsReadByTheNameOfItsCookie: behind TLS only the one that no other host can have set, and that one nowhere else.
func TestASessionIsReadByTheNameOfItsCookie(t *testing.T) {
	for _, tc := range []struct{ url, read, ignored string }{
		{"https://paste.example", "__Host-quire_session", "quire_session"},
		{"http://paste.example", "quire_session", "__Host-quire_session"},
	} {
		_, addr := startServer(t, Config{PublicURL: tc.url}, func(*Server) {})
		for name, code := range map[string]string{tc.read: "session_required", tc.ignored: "api_key_required"} {
			a := exchange(t, addr, "GET /api/users/user HTTP/1.1\r\nHost: a\r\nCookie: "+name+"=x\r\n\r\n", 1)[0]
			if a.status != 401 || !strings.Contains(a.body, `"`+code+`"`) {
				t.Errorf("%s with %s: %d %s, want %s", tc.url, name, a.status, a.body, code)
			}
		}
	}
}

// TestTheAdminListenerHasTheAdminPathsAlone, and with it the other one has none of them in any method.
func TestTheAdminListenerHasTheAdminPathsAlone(t *testing.T) {
	s, admins := startServer(t, Config{AdminTokens: theToken(), AdminOnly: true}, func(*Server) {})
	_, public := startServer(t, Config{}, func(*Server) {})
	for _, r := range s.routes() {
		path := strings.NewReplacer(":", "").Replace(r.Path)
		for addr, exists := range map[string]bool{admins: r.ForAdmins() || r.Path == assetPath, public: !r.ForAdmins()} {
			if !exists && (addr != public || r.Who != endpoint.Operators) {
				a := exchange(t, addr, r.Method+" "+path+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token\r\nAccept: text/html\r\nContent-Length: 0\r\n\r\n", 1)[0]
				if a.status != 404 {
					t.Errorf("%s %s: %d %.200s", r.Method, path, a.status, a.body)
				}
			}
		}
	}
	a := exchange(t, admins, "GET /api/admin/accounts/nobody HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer the token\r\n\r\n", 1)[0]
	if a.status != 404 || !strings.Contains(a.body, "belongs to another account") {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = exchange(t, admins, "OPTIONS /api/dev/pastes/create HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n\r\n", 1)[0]
	if a.status != 404 {
		t.Errorf("a preflight: %d %s", a.status, a.body)
	}
}

func TestWithoutAnAdminTokenTheAdminPathsDoNotExist(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	for _, line := range []string{"POST /api/admin/accounts", "GET /api/admin/accounts", "DELETE /api/admin/audit", "PUT /api/admin/accounts/x/tier"} {
		a := exchange(t, addr, line+" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \r\nContent-Length: 0\r\n\r\n", 1)[0]
		if a.status != 404 || !strings.Contains(a.body, `"not_found"`) {
			t.Errorf("%s: %d %s", line, a.status, a.body)
		}
	}
}

func TestGuessingTheAdminTokenIsLimitedAndKnowingItIsNot(t *testing.T) {
	_, addr := startServer(t, Config{AdminTokens: theToken()}, func(*Server) {})
	call := func(token string) string {
		return "GET /api/admin/accounts/nobody HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + "\r\n\r\n"
	}
	wrong := exchange(t, addr, strings.Repeat(call("the tokem"), 100+2), 100+2)
	for i, a := range wrong {
		if want := 401; i <= 100 && a.status != want {
			t.Fatalf("call %d: %d %s", i+1, a.status, a.body)
		}
	}
	last := wrong[len(wrong)-1]
	if last.status != 429 || last.header.Get("Retry-After") == "" || !strings.Contains(last.body, `"too_many_failures"`) {
		t.Errorf("%d %s", last.status, last.body)
	}
	if a := exchange(t, addr, call("the token"), 1)[0]; a.status != 404 {
		t.Errorf("with the token: %d %s", a.status, a.body)
	}
}

// TestRegistrationsUnderOneIdempotencyKey: the fold that remembers the key must see all of them, and
// no two emails may share an account.
func TestRegistrationsUnderOneIdempotencyKey(t *testing.T) {
	s, _ := startServer(t, Config{}, func(*Server) {})
	rapid.Check(t, func(t *rapid.T) {
		s.partitions = rapid.IntRange(1, 64).Draw(t, "partitions")
		idem := rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "idempotency id")
		one := rapid.StringMatching(`[a-z]{1,8}@[a-z]{1,8}`).Draw(t, "email")
		proposals := func(email string) []event.AccountID { return slices.Collect(s.accountsFor(idem, email)) }
		first, again, other := proposals(one), proposals(strings.ToUpper(one)), proposals("x"+one)
		every := slices.Concat(first, other)
		if !slices.Equal(first, again) || len(first) != mostProposals || len(slices.Compact(slices.Sorted(slices.Values(every)))) != len(every) {
			t.Errorf("%v, again %v, for another email %v", first, again, other)
		}
		want := event.Partition(idem, s.partitions)
		for _, id := range every {
			if got := event.AccountPartition(id, s.partitions); got != want {
				t.Errorf("account %v in partition %d, want %d", id, got, want)
			}
		}
	})
	one, err1 := s.proposeAccount(nil, "a@b")
	if other, err2 := s.proposeAccount(nil, "a@b"); err1 != nil || err2 != nil || one == other {
		t.Errorf("without a key two registrations propose %v and %v, %v, %v", one, other, err1, err2)
	}
}

func TestDollarsAndCredits(t *testing.T) {
	for cents, want := range map[uint64]string{0: "0.00", 5: "0.05", 99: "0.99", 100: "1.00", 123456: "1234.56"} {
		if got := endpoint.Dollars(cents); got != want {
			t.Errorf("%d cents are %s", cents, got)
		}
	}
	if got := endpoint.Credits(uint64(credit.One)/2 + 1); got != "0.500001" {
		t.Error(got)
	}
}
