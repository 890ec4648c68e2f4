package web

import (
	"testing"
	"time"
)

// TestANullBesideTheExpiryOfANewKeyDoesNotEndIt: in whatever order the fields come.
func TestANullBesideTheExpiryOfANewKeyDoesNotEndIt(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, body := range []string{
		`{"name":"ci","expiresAt":"2027-02-01T00:00:00Z","expiresIn":null}`, `{"name":"ci","expiresIn":null,"expiresAt":"2027-02-01T00:00:00Z"}`,
		`{"name":"ci","expiresIn":"1h","expiresAt":null}`, `{"name":"ci","expiresAt":null,"expiresIn":"1h"}`,
	} {
		if r, err := readKeyRules([]byte(body), now, true); err != nil || r.GetExpiresMs() == 0 && r.GetExpiresInMs() == 0 {
			t.Errorf("%s is read as %v, %v", body, r, err)
		}
	}
}
