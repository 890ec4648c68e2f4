package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quire.dev/services/edge/internal/console"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/endpoint/endpointtest"
)

// TestThePartitionsThatNoInstanceServesAreNamed, with no service running at all.
func TestThePartitionsThatNoInstanceServesAreNamed(t *testing.T) {
	_, addr := startServer(t, Config{Config: endpoint.Config{AdminTokens: theToken()}}, func(*Server) {})
	cookie := adminCookieOf(t, addr, theToken()[0])
	get := func(path string) endpointtest.Answer {
		return endpointtest.Exchange(t, addr, fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nCookie: %s\r\n\r\n", path, cookie), 1)[0]
	}
	for _, path := range []string{console.AdminHealthPath, console.AdminHealthPath + "?from=0", console.AdminHealthTable + "?from="} {
		got := get(path)
		for _, text := range []string{"No instance serves these partitions: billing 0, paste 0, lite 0, file 0.", `<th scope="row">file 0</th><td>none</td>`, "not served"} {
			if got.Status != http.StatusOK || !strings.Contains(got.Body, text) {
				t.Errorf("%s: %d, without %q: %s", path, got.Status, text, got.Body)
			}
		}
	}
	for _, from := range []string{"1", "-1", "x", "99999999999999999999"} {
		for _, path := range []string{console.AdminHealthPath, console.AdminHealthTable} {
			if got := get(path + "?from=" + from); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "from must be a partition number") {
				t.Errorf("%s from %s: %d %.300s", path, from, got.Status, got.Body)
			}
		}
	}
}
