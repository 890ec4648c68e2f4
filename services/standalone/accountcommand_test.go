package standalone

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An admin far from the data folder manages accounts with the public URL and the token alone.
func TestAccountsAreManagedByURLAndToken(t *testing.T) {
	t.Parallel()
	const token = "qa_0123456789abcdef0123456789abcdef"
	c := launch(t, filepath.Join(t.TempDir(), "data"), "QUIRE_ADMIN_TOKEN="+token)
	elsewhere := filepath.Join(t.TempDir(), "none")
	account := func(args ...string) (out, errs string, code int) {
		return quire(t, elsewhere, []string{"QUIRE_PUBLIC_URL=" + c.base, "QUIRE_ADMIN_TOKEN=" + token}, append([]string{"account"}, args...)...)
	}
	const email = "grace@example.org"
	out, errs, code := account("create", "--email", email, "--tier", "free", "--json")
	var made struct {
		Account struct{ ID string }
		APIKey  string
	}
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made.Account.ID == "" {
		t.Fatalf("create: %d %v %q %q", code, err, out, errs)
	}
	for _, step := range []struct {
		args []string
		code int
		want []string // in the output, or in the error if code is not 0
	}{
		{[]string{"show", email}, 0, []string{made.Account.ID, email, "free", "active", "pasteLite.create", "not in plan"}},
		{[]string{"show", made.Account.ID}, 0, []string{email}},
		{[]string{"plan", email, "pro"}, 0, []string{made.Account.ID + " is on the pro plan"}},
		{[]string{"plan", email, "max", "--next-month"}, 0, []string{"on the pro plan, and on the max plan from the next month on"}},
		{[]string{"plan", email, "pro"}, 0, []string{made.Account.ID + " is on the pro plan\n"}},
		{[]string{"plan", email, "gold"}, 1, []string{"tier must be free, pro, max or admin"}},
		{[]string{"credits", email, "--grant", "12.5", "--reason", "a gift"}, 0, []string{"balance: 12.5 credits"}},
		{[]string{"credits", email, "--withdraw", "2.5", "--reason", "too much"}, 0, []string{"balance: 10 credits"}},
		{[]string{"credits", email, "--withdraw", "10.000001", "--reason", "too much"}, 1, []string{"insufficient_credits"}},
		{[]string{"credits", email, "--grant", "1", "--withdraw", "1", "--reason", "both"}, 2, []string{"--grant or --withdraw"}},
		{[]string{"credits", email, "--grant", "1"}, 2, []string{"--reason"}},
		{[]string{"payment", email, "2026-1", "--credits", "3", "--amount", "3.57", "--tax", "0.57"}, 0, []string{"balance: 13 credits"}},
		{[]string{"payment", email, "2026-1", "--credits", "3"}, 0, []string{"balance: 13 credits"}},
		{[]string{"payment", email, "2026-1", "--credits", "4"}, 1, []string{"payment_mismatch"}},
		{[]string{"payment", email, "2026-3", "--credits", "1", "--amount", "1.00", "--tax", "1.01"}, 1, []string{"taxUsd"}},
		{[]string{"payment", email, "2026-3", "--credits", "1", "--amount", "1.001"}, 1, []string{"amountUsd"}},
		{[]string{"payment", email, "2026-1"}, 2, []string{"--credits"}},
		{[]string{"reverse", email, "2026-1", "--credits", "3", "--reason", "disputed", "--chargeback"}, 0, []string{"balance: 10 credits"}},
		{[]string{"reverse", email, "2026-2", "--credits", "3", "--reason", "disputed"}, 1, []string{"No such payment"}},
		{[]string{"refund", email, "--period", "2026-11", "--quota-key", "pastes.get", "--amount", "1", "--reason", "r"}, 1, []string{"not_refundable"}},
		{[]string{"refund", email, "--request", "01a1fff9-83d3-743f-9a6d-5290a1beb664", "--reason", "r"}, 1, []string{"has paid no credits"}},
		{[]string{"refund", email, "--request", "01a1fff9-83d3-743f-9a6d-5290a1beb664", "--amount", "1", "--reason", "r"}, 2, []string{"--quota-key"}},
		{[]string{"refund", email, "--period", "2026-11"}, 2, []string{"--quota-key"}},
		{[]string{"suspend", email}, 2, []string{"--reason"}},
		{[]string{"suspend", email, "--reason", "spam"}, 0, []string{made.Account.ID + " is suspended"}},
		{[]string{"show", email}, 0, []string{"pro", "suspended since", "spam", "10, 0 spent"}},
		{[]string{"resume", email, "--reason", "settled"}, 0, []string{"active again"}},
		{[]string{"keys", email}, 0, []string{"default", "qk_", "active", "never"}},
		{[]string{"revoke", email, "default"}, 2, []string{"--yes"}}, // there is no terminal
		{[]string{"revoke", email, "k7", "--yes"}, 1, []string{"No such API key"}},
		{[]string{"revoke", email, "default", "--yes"}, 0, []string{"revoked: default"}},
		{[]string{"keys", email}, 0, []string{"revoked"}},
		{[]string{"show", "nobody@example.org"}, 1, []string{"no account has the address nobody@example.org"}},
		{[]string{"show", "G178uU9dNkL"}, 1, []string{"404"}},
		{[]string{"shout", email}, 2, []string{`unknown command "shout"`}},
	} {
		out, errs, code := account(step.args...)
		text := out
		if step.code != 0 {
			text = errs
		}
		for _, want := range step.want {
			if code != step.code || !strings.Contains(text, want) {
				t.Errorf("account %q: exit %d, want %d with %q\n%s%s", step.args, code, step.code, want, out, errs)
			}
		}
	}
	if status := usageStatus(t, c.base, made.APIKey); status != http.StatusUnauthorized {
		t.Errorf("a call with the revoked key: %d", status)
	}
	out, _, code = account("show", email, "--json")
	var shown struct{ Credits struct{ Balance string } }
	if err := json.Unmarshal([]byte(out), &shown); code != 0 || err != nil || shown.Credits.Balance != "10.000000" {
		t.Errorf("show --json: %d %v %s", code, err, out)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// usageStatus is the status of a call with an API key.
func usageStatus(t *testing.T, base, key string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/users/user/dev-usage", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("x-api-key", key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
