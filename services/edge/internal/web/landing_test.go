package web

import (
	"strings"
	"testing"

	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

func TestTheLandingPageIsOfUseWithoutBilling(t *testing.T) {
	_, addr := startServer(t, Config{}, func(*Server) {})
	a := endpointtest.Exchange(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\n\r\n", 1)[0]
	if a.Status != 200 {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	for _, text := range []string{
		`action="/paste/create"`, "curl -T main.go http://" + addr, "No account needed.",
		"Limits and prices are temporarily unavailable.", "Some systems are down.",
	} {
		if !strings.Contains(a.Body, text) {
			t.Errorf("%q is not in\n%s", text, a.Body)
		}
	}
}
