package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	admins "quire.dev/pkg/admin"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// adminCookieOf returns the cookie of a token's session.
func adminCookieOf(t *testing.T, addr string, token admins.Token) string {
	t.Helper()
	form := url.Values{"token": {token.Secret}}.Encode()
	signed := endpointtest.Exchange(t, addr, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-origin\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", console.AdminSignInPath, len(form), form), 1)[0]
	cookie, _, _ := strings.Cut(signed.Header.Get("Set-Cookie"), ";")
	if signed.Status != http.StatusSeeOther || !strings.HasPrefix(cookie, "quire_admin"+"=") {
		t.Fatalf("signed in: %d, cookie %q: %s", signed.Status, cookie, signed.Body)
	}
	return cookie
}

// TestAnAdminSessionEndsInTimeAndWithItsToken, on every edge, since no edge keeps a list of sessions.
func TestAnAdminSessionEndsInTimeAndWithItsToken(t *testing.T) {
	ann, ben := admins.Token{Name: "ann", Secret: "the token of ann"}, admins.Token{Name: "ben", Secret: "the token of ben"}
	nc := journaltest.Start(t).Conn(t)
	// edge starts an edge whose clock is ahead of the others'.
	edge := func(ahead time.Duration, tokens ...admins.Token) (addr string) {
		b, err := bus.New(nc, bus.Config{Partitions: 1, Offset: ahead})
		if err != nil {
			t.Fatal(err)
		}
		_, addr = startServerOn(t, b, Config{Config: endpoint.Config{AdminTokens: tokens}}, func(*Server) {})
		return addr
	}
	first := edge(0, ann)
	cases := []struct {
		name, addr string
		status     int
	}{
		{"the edge that opened it", first, http.StatusOK},
		{"another one", edge(0, ann), http.StatusOK},
		{"with a further token", edge(0, ben, ann), http.StatusOK},
		{"after 29 minutes", edge(29*time.Minute, ann), http.StatusOK},
		{"after 30 minutes", edge(30*time.Minute, ann), http.StatusSeeOther},
		{"after a day", edge(24*time.Hour, ann), http.StatusSeeOther},
		{"from a time that is yet to come", edge(-5*time.Minute, ann), http.StatusSeeOther},
		{"with another token of this name", edge(0, admins.Token{Name: ann.Name, Secret: "the new token of ann"}), http.StatusSeeOther},
		{"with the token under another name", edge(0, admins.Token{Name: "anna", Secret: ann.Secret}), http.StatusSeeOther},
		{"without the token", edge(0, ben), http.StatusSeeOther},
	}

	cookie := adminCookieOf(t, first, ann)
	for _, c := range cases {
		got := endpointtest.Exchange(t, c.addr, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nCookie: %s\r\n\r\n", console.AdminAuditsPath, cookie), 1)[0]
		if got.Status != c.status {
			t.Errorf("%s: %d, want %d", c.name, got.Status, c.status)
		}
		if to := got.Header.Get("Location"); c.status == http.StatusSeeOther && !strings.HasPrefix(to, console.AdminSignInPath+"?") {
			t.Errorf("%s: leads to %q", c.name, to)
		}
	}
}

// TestThePartOfAPageLeadsToTheFormWhereTheSessionHasEnded: the page's script navigates the whole window there; without a
// script, the browser does.
func TestThePartOfAPageLeadsToTheFormWhereTheSessionHasEnded(t *testing.T) {
	_, addr := startServer(t, Config{Config: endpoint.Config{AdminTokens: theToken()}}, func(*Server) {})
	const id = "01a1fff9-83d3-743f-9a6d-5290a1beb664"
	for part, next := range map[string]string{
		console.AdminHealthTable:                         "%2Fconsole%2Fadmin%2Fhealth",
		console.AdminAuditsPath + "/" + id + "/progress": "%2Fconsole%2Fadmin%2Faudits%2F" + id,
		console.AdminRequestsPath + "/" + id + "/fold":   "%2Fconsole%2Fadmin%2Frequests%2F" + id,
	} {
		get := "GET " + part + " HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n"
		got := endpointtest.Exchange(t, addr, get+"HX-Request: true\r\n\r\n", 1)[0]
		if to := got.Header.Get("HX-Redirect"); got.Status != http.StatusOK || to != console.AdminSignInPath+"?next="+next || got.Body != "" {
			t.Errorf("%s: a script gets %d %q, and goes to %q", part, got.Status, got.Body, to)
		}
		if got := endpointtest.Exchange(t, addr, get+"\r\n", 1)[0]; got.Status != http.StatusSeeOther || got.Header.Get("HX-Redirect") != "" {
			t.Errorf("%s: %d without a script", part, got.Status)
		}
	}
}
