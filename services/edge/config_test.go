package edge_test

import (
	"strings"
	"testing"

	"quire.dev/services/edge"
)

func TestTheContentURLIsAnOriginOnAnotherHost(t *testing.T) {
	for _, tc := range []struct{ content, public, fault string }{
		{"", "", ""},
		{"https://content.example", "https://quire.example", ""},
		{"https://content.example/", "https://quire.example", ""},
		{"https://content.example", "", "needs a public URL"},
		{"https://quire.example:8443", "https://quire.example", "another host"},
		{"https://QUIRE.example", "https://quire.example", "another host"},
		{"https://content.example/path", "https://quire.example", "must be an origin"},
		{"https://user@content.example", "https://quire.example", "must be an origin"},
		{"https://", "https://quire.example", "must be an origin"},
	} {
		cfg := edge.Config{Listen: ":0", Secret: []byte(testSecret), Partitions: 1, ContentURL: tc.content, PublicURL: tc.public}
		err := cfg.Validate()
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%q beside %q: %v, want %q", tc.content, tc.public, err, tc.fault)
		}
	}
}
