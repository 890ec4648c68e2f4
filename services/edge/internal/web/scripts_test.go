package web

import (
	"strings"
	"testing"

	"quire.dev/services/edge/internal/endpoint"
)

// TestScriptsReadTheKeyedAPIRawContentAndTheLogOnly checks the whole table against docs/api.md, From a browser's script.
func TestScriptsReadTheKeyedAPIRawContentAndTheLogOnly(t *testing.T) {
	for _, r := range New(Config{}, Deps{}).routes() {
		want := endpoint.NeverScripts
		switch {
		case strings.HasPrefix(r.Path, "/api/dev/"):
			want = endpoint.KeyedScripts
			if r.Who != endpoint.APIKey && r.Who != endpoint.KeyOrKeyless && r.Who != endpoint.KeyOrToken {
				t.Errorf("%s %s takes another proof than a key", r.Method, r.Path)
			}
		case strings.HasSuffix(r.Path, "/raw"), strings.HasPrefix(r.Path, "/log/"):
			want = endpoint.AnyScripts
			if r.Who != endpoint.Anybody || r.Method != "GET" {
				t.Errorf("%s %s is not for everybody", r.Method, r.Path)
			}
		}
		if r.Scripts() != want {
			t.Errorf("%s %s: %d, want %d", r.Method, r.Path, r.Scripts(), want)
		}
	}
}
