package webhooks

import (
	"testing"

	"quire.dev/pkg/event"
)

// The attempts to one host are bounded together, however its name is spelled.
func TestAHostIsCountedUnderOneName(t *testing.T) {
	for url, want := range map[string]string{
		"https://example.com/a":        "example.com:443",
		"https://EXAMPLE.com./b?c":     "example.com:443",
		"https://example.com:443":      "example.com:443",
		"http://example.com":           "example.com:80",
		"https://example.com:8443":     "example.com:8443",
		"https://[2001:DB8::1]/":       "[2001:db8::1]:443",
		"https://other.example.com:80": "other.example.com:80",
	} {
		if got := hostOf(&event.WebhookAddress{Url: url}); got != want {
			t.Errorf("%s is counted under %s, want %s", url, got, want)
		}
	}
}
