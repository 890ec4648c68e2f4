package web

import (
	"fmt"
	"strings"
	"testing"

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
		// The last field is invalid, so that nothing is created if the others are valid.
		wrong := "--b\r\nContent-Disposition: form-data; name=\"visibility\"\r\n\r\nx\r\n"
		a := endpointtest.Exchange(t, addr, postedForm("/", part+part+wrong+"--b--\r\n"), 1)[0]
		refused := strings.Contains(a.Body, field+" must be sent only once")
		if a.Status != 400 || refused != twice || !refused && !strings.Contains(a.Body, `"field":"visibility"`) {
			t.Errorf("%s: %d %s", field, a.Status, a.Body)
		}
	}
}

// TestTheUsageTextComesWithoutBilling: nobody answers on the bus.
func TestTheUsageTextComesWithoutBilling(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := endpointtest.Exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1)[0]
	if a.Status != 200 || !strings.Contains(a.Body, "curl -T") || !strings.Contains(a.Body, "currently unavailable") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}
