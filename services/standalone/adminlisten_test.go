package standalone

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quire.dev/services/standalone/internal/datafolder"
)

// TestAdminsAreServedOnTheirOwnAddress: the admin paths are nowhere else, and the commands find them there with the first
// token.
func TestAdminsAreServedOnTheirOwnAddress(t *testing.T) {
	t.Parallel()
	const ann, bob = "a-token-of-ann-for-tests", "a-token-of-bob-for-tests"
	folder := filepath.Join(t.TempDir(), "data")
	tokens := "QUIRE_ADMIN_TOKEN=ann:" + ann + ",bob:" + bob
	c := launch(t, folder, tokens, "QUIRE_ADMIN_LISTEN=127.0.0.1:0")
	holder, running, err := datafolder.Running(folder)
	if err != nil || !running || holder.URL != c.base || holder.AdminURL == "" || holder.AdminURL == c.base {
		t.Fatalf("%+v, %v, %v", holder, running, err)
	}
	get := func(url, token string) (status int, docs string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var body struct{ Docs string }
		if err := json.NewDecoder(res.Body).Decode(&body); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		return res.StatusCode, body.Docs
	}
	for _, tc := range []struct {
		url, token string
		status     int
	}{
		{holder.AdminURL + "/api/admin/log", ann, 200},
		{holder.AdminURL + "/api/admin/log", bob, 200},
		{holder.AdminURL + "/api/admin/log", "ann:" + ann, 401},
		{holder.AdminURL + "/api/users/user", ann, 404},
		{holder.AdminURL + "/", ann, 404},
		{holder.AdminURL + "/readyz", ann, 404},
		{c.base + "/api/admin/log", ann, 404},
		{c.base + "/api/admin/nothing", ann, 404},
	} {
		status, docs := get(tc.url, tc.token)
		if status != tc.status || status != 200 && !strings.HasPrefix(docs, c.base+"/docs/") {
			t.Errorf("%s: %d %s, want %d", tc.url, status, docs, tc.status)
		}
	}
	out, errs, code := quire(t, folder, []string{tokens}, "account", "create", "--email", "second@example.org", "--tier", "max")
	if code != 0 || !strings.Contains(out, "second@example.org, max") {
		t.Errorf("account create: %d %q %q", code, out, errs)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
}
