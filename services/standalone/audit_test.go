package standalone

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quire.dev/pkg/admin"
	"quire.dev/pkg/views/sqlite/sqlitetest"
)

// TestAuditNamesAndRepairsARowThatWasDeleted from the data folder, beside a running quire and without one.
func TestAuditNamesAndRepairsARowThatWasDeleted(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "data")
	c := launch(t, folder)
	grantCredits(t, c.base)
	token := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}
	tamper := func() {
		t.Helper()
		sqlitetest.Exec(t, filepath.Join(folder, "views", "billing.db"), `DELETE FROM "doc.billing_ledger"`)
	}
	// The row is there before it is deleted: the audit waits for it.
	if out, errs, code := quire(t, folder, token, "audit"); code != 0 || !strings.Contains(out, "ledger: 1 rows, 0 differ") {
		t.Fatalf("audit: %d %q %q", code, out, errs)
	}
	for _, way := range []string{"beside a running quire", "alone"} {
		tamper()
		out, errs, code := quire(t, folder, token, "audit")
		if code != 1 || !strings.Contains(out, "partition 0: DIFFERS") || !strings.Contains(out, ": expected present, found missing") || !strings.Contains(errs, "something differs from the journals") {
			t.Errorf("%s: audit: %d %q %q", way, code, out, errs)
		}
		if out, errs, code := quire(t, folder, token, "repair", "--table", "ledger"); code != 2 || !strings.Contains(out, "found missing") || !strings.Contains(errs, "cannot prompt: not a terminal. Use --yes.") {
			t.Errorf("%s: a repair that can't ask: %d %q %q", way, code, out, errs)
		}
		if out, errs, code := quire(t, folder, token, "repair", "--table", "ledger", "--yes"); code != 0 || !strings.Contains(out, "repair: 1 rows of ledger were rewritten or deleted") {
			t.Errorf("%s: repair: %d %q %q", way, code, out, errs)
		}
		if out, errs, code := quire(t, folder, token, "audit", "--deep"); code != 0 || !strings.Contains(out, "everything matches") {
			t.Errorf("%s: audit after the repair: %d %q %q", way, code, out, errs)
		}
		if way == "alone" {
			break
		}
		if err := c.end(t, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	if out, errs, code := quire(t, folder, token, "audit", "--new"); code != 0 || !strings.Contains(out, "new since sequence ") {
		t.Errorf("an audit of what is new: %d %q %q", code, out, errs)
	}
	if out, errs, code := quire(t, folder, token, "audit", "--new", "--until", "1"); code != 1 || !strings.Contains(errs, "new can't be combined with account or until") {
		t.Errorf("of what is new until a message: %d %q %q", code, out, errs)
	}
	if out, errs, code := quire(t, folder, token, "repair", "--table", "users"); code != 2 || !strings.Contains(errs, "--table must be one of ledger") {
		t.Errorf("repair of no table: %d %q %q", code, out, errs)
	}
	for _, args := range [][]string{{"audit", "--partition", "7"}, {"audit", "--account", "x"}, {"repair", "--table", "ledger", "--account", "x"}} {
		if out, errs, code := quire(t, folder, token, args...); code != 1 || !strings.Contains(errs, "must be") {
			t.Errorf("%v: %d %q %q", args, code, out, errs)
		}
	}
}

// grantCredits gives a new account credits, which makes an entry of its ledger.
func grantCredits(t *testing.T, base string) {
	t.Helper()
	api := admin.Client{Base: base, Token: testAdminToken}
	made, err := api.CreateAccount(t.Context(), admin.NewAccount{Email: "a@example.org", Tier: "pro"}, "")
	if err != nil {
		t.Fatal(err)
	}
	var granted struct{ Balance string }
	err = api.Call(t.Context(), http.MethodPost, "/api/admin/accounts/"+made.Account.ID+"/credits", map[string]string{"amount": "1", "reason": "gift"}, &granted)
	if err != nil || granted.Balance != "1.000000" {
		t.Fatalf("%+v, %v", granted, err)
	}
}
