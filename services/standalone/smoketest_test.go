package standalone

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The smoke test asks an installation under another URL than its public one, as helm test does, and leaves no account behind.
func TestTheSmokeTestUsesEachKindAndDeletesItsAccount(t *testing.T) {
	t.Parallel()
	c := launch(t, filepath.Join(t.TempDir(), "data"), "QUIRE_PUBLIC_URL=https://paste.example.org")
	elsewhere := filepath.Join(t.TempDir(), "none")
	id := regexp.MustCompile(`account: created (\S+) `)
	for _, test := range []struct {
		name     string
		settings []string
		want     []string
	}{
		{"Free plan", []string{"QUIRE_ADMIN_TOKEN="}, []string{"quick paste: created, read, deleted\n", "\npaste: not in the account's plan\n", "file: not in the account's plan\n", "usage: 3 requests"}},
		{"admin plan", []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}, []string{"quick paste: created, read, deleted\n", "\npaste: created, read, deleted\n", "file: created, read, deleted\n", "usage: 9 requests"}},
	} {
		out, errs, code := quire(t, elsewhere, test.settings, "smoke-test", c.base)
		if code != 0 || errs != "" {
			t.Fatalf("%s: exit %d, %s%s", test.name, code, out, errs)
		}
		for _, want := range append(test.want, "account: deleted, permanently at ") {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", test.name, want, out)
			}
		}
		account := id.FindStringSubmatch(out)[1]
		shown, errs, code := quire(t, elsewhere, []string{"QUIRE_PUBLIC_URL=" + c.base, "QUIRE_ADMIN_TOKEN=" + testAdminToken}, "account", "show", account)
		if code != 0 || !strings.Contains(shown, "will be deleted at") || !strings.Contains(shown, "0.0 MB of") {
			t.Errorf("%s: the account is not deleted: %d %s%s", test.name, code, shown, errs)
		}
	}
}

// The account is deleted, and the exit status is 1, where a step has failed.
func TestTheSmokeTestDeletesItsAccountAfterAFailure(t *testing.T) {
	t.Parallel()
	c := launch(t, filepath.Join(t.TempDir(), "data"))
	elsewhere := filepath.Join(t.TempDir(), "none")
	out, errs, code := quire(t, elsewhere, []string{"QUIRE_ADMIN_TOKEN=qa_another-token-than-the-servers"}, "smoke-test", c.base)
	if code != 1 || !strings.Contains(errs, "change the plan: ") || !strings.Contains(errs, http.StatusText(http.StatusUnauthorized)) && !strings.Contains(errs, "401") ||
		!strings.Contains(out, "account: deleted, permanently at ") || strings.Contains(out, "usage: ") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	if out, errs, code = quire(t, elsewhere, nil, "smoke-test", "http://127.0.0.1:1"); code != 1 || !strings.Contains(errs, "create an account: ") {
		t.Errorf("without a server: exit %d, %s%s", code, out, errs)
	}
}
