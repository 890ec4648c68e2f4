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
)

// TestAnAdminSessionEndsInTimeAndWithItsToken, on every edge, whichever opened it: none keeps a list of sessions.
func TestAnAdminSessionEndsInTimeAndWithItsToken(t *testing.T) {
	ann, ben := admins.Token{Name: "ann", Secret: "the token of ann"}, admins.Token{Name: "ben", Secret: "the token of ben"}
	nc := journaltest.Start(t).Conn(t)
	// edge has a clock that is ahead of the others.
	edge := func(ahead time.Duration, tokens ...admins.Token) (addr string) {
		b, err := bus.New(nc, bus.Config{Partitions: 1, Offset: ahead})
		if err != nil {
			t.Fatal(err)
		}
		_, addr = startServer(t, Config{AdminTokens: tokens}, func(s *Server) { s.bus = b })
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

	form := url.Values{"token": {ann.Secret}}.Encode()
	signed := exchange(t, first, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: a\r\nSec-Fetch-Site: same-origin\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", console.AdminSignInPath, len(form), form), 1)[0]
	cookie, _, _ := strings.Cut(signed.header.Get("Set-Cookie"), ";")
	if signed.status != http.StatusSeeOther || !strings.HasPrefix(cookie, adminCookie+"=") {
		t.Fatalf("signed in: %d, cookie %q: %s", signed.status, cookie, signed.body)
	}
	for _, c := range cases {
		got := exchange(t, c.addr, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nCookie: %s\r\n\r\n", console.AdminAuditsPath, cookie), 1)[0]
		if got.status != c.status {
			t.Errorf("%s: %d, want %d", c.name, got.status, c.status)
		}
		if to := got.header.Get("Location"); c.status == http.StatusSeeOther && !strings.HasPrefix(to, console.AdminSignInPath+"?") {
			t.Errorf("%s: leads to %q", c.name, to)
		}
	}
}
