package web

import (
	"fmt"
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

func TestANameOfAFormIsNoLongerThanATitle(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	body := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"" + strings.Repeat(".A", 30_000) + "\"\r\n\r\nx\r\n--b--\r\n"
	a := endpointtest.Exchange(t, addr, postedForm("/?title=x", body), 1)[0]
	if a.Status != 400 || !strings.Contains(a.Body, `"field":"name"`) {
		t.Errorf("%d %.500s", a.Status, a.Body)
	}
}

// postedForm is a request with a form whose boundary is b.
func postedForm(path, body string) string {
	return "POST " + path + " HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\nContent-Type: multipart/form-data; boundary=b\r\n" +
		fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
}

func TestAFieldOfAFormIsGivenOnce(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	for field, twice := range map[string]bool{"title": true, "language": true, "tags": false, "note": false} {
		part := "--b\r\nContent-Disposition: form-data; name=\"" + field + "\"\r\n\r\ngo\r\n"
		// The last field is wrong, so that nothing is made where the others are right.
		wrong := "--b\r\nContent-Disposition: form-data; name=\"visibility\"\r\n\r\nx\r\n"
		a := endpointtest.Exchange(t, addr, postedForm("/", part+part+wrong+"--b--\r\n"), 1)[0]
		refused := strings.Contains(a.Body, field+" must be given once")
		if a.Status != 400 || refused != twice || !refused && !strings.Contains(a.Body, `"field":"visibility"`) {
			t.Errorf("%s: %d %s", field, a.Status, a.Body)
		}
	}
}

func TestTheUsageTextFitsATerminal(t *testing.T) {
	const day = 24 * 60 * 60
	for _, test := range []struct {
		allowance *event.AllowanceAnswer
		says      string
	}{
		{nil, "is not known at the moment"},
		{&event.AllowanceAnswer{WindowMs: day * 1000}, "with an API key only"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, Remaining: 10}, "10 in any 24 hours, each kept for 30 days at most.\n  You have 10 left.\n"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, ResetSeconds: 61}, "You have 0 left. There is one more in 2 minutes.\n"},
		{&event.AllowanceAnswer{WindowMs: day * 1000, Limit: 10, Remaining: 3, ResetSeconds: 23*3600 + 1}, "You have 3 left. There is one more in 23 hours 1 minute.\n"},
		{&event.AllowanceAnswer{WindowMs: 60 * 60 * 1000, Limit: 10, ResetSeconds: 3600}, "10 in any 1 hour, each kept for 30 days at most.\n  You have 0 left. There is one more in 1 hour.\n"},
	} {
		text := usageText("https://quire.example", test.allowance)
		if !strings.Contains(text, test.says) {
			t.Errorf("%q is not in\n%s", test.says, text)
		}
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if len(lines) > 24 {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if len(line) > 80 {
				t.Errorf("%d characters: %s", len(line), line)
			}
		}
	}
}

// TestTheUsageTextComesWithoutBilling: nobody answers on the bus.
func TestTheUsageTextComesWithoutBilling(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := endpointtest.Exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.Status != 200 || !strings.Contains(a.Body, "curl -T") || !strings.Contains(a.Body, "not known at the moment") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
