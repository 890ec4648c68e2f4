package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/lockedfile"

	"quire.dev/client"
)

// receipt is one with a number.
func receipt(number string) string { return number + "." + strings.Repeat("ab", 32) }

// serve answers every call with a status, a body and a receipt, and returns the environment of its user.
func serve(t *testing.T, status int, body, receipt string) []string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if receipt != "" {
			w.Header().Set("X-Receipt", receipt)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return []string{"HOME=" + t.TempDir(), "QUIRE_URL=" + server.URL, "QUIRE_API_KEY=qk_x"}
}

// TestRefusalsHaveReceiptsToo, and entries that the service deleted are not taken for a mismatch: what is kept stays until --reset.
func TestRefusalsHaveReceiptsToo(t *testing.T) {
	t.Parallel()
	const gone = `{"code":"not_found","reason":"Entry 4 is no longer kept."}`
	environ := serve(t, http.StatusNotFound, gone, receipt("3"))
	if _, _, status := run(t, environ, "paste", "get", "p/Zk3vPq81mXaT"); status != ExitNotFound {
		t.Errorf("status %d", status)
	}
	a := appFor(t, environ)
	as, err := a.account()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := a.keptReceipts(as)
	if err != nil {
		t.Fatal(err)
	}
	before, err := kept.Get()
	if err != nil || before.Verified != receipt("3") {
		t.Fatalf("%+v %v", before, err)
	}
	out, errs, status := run(t, environ, "paste", "usage", "--verify")
	if status != ExitNotFound || out != "" || errs != "quire: entry 4 can no longer be checked: Entry 4 is no longer kept.\n  The operator's journal still has them. "+startAnew+"\n" {
		t.Errorf("%d %q %q", status, out, errs)
	}
	if _, errs, _ := run(t, environ, "paste", "usage", "--verify", "--json"); !strings.Contains(errs, `"code":"entries_not_kept","reason":"entry 4 can no longer be checked: Entry 4 is no longer kept."`) {
		t.Errorf("%q", errs)
	}
	if now, err := kept.Get(); err != nil || now != before {
		t.Errorf("%+v %v", now, err)
	}
}

// TestALockedFileHoldsNoCommandUp for long: it is a warning, as any failure to keep a receipt.
func TestALockedFileHoldsNoCommandUp(t *testing.T) {
	t.Parallel()
	var lock *lockedfile.File
	t.Cleanup(func() { // once the folder is removed: the last command still waits, and must find nowhere to write
		if lock != nil {
			_ = lock.Close()
		}
	})
	environ := serve(t, http.StatusOK, `{"paste":{"id":"Zk3vPq81mXaT","content":"text"}}`, receipt("1"))
	get := func() (string, string, int) { return run(t, environ, "paste", "get", "p/Zk3vPq81mXaT") }
	if out, errs, status := get(); status != 0 || out != "text" || strings.Contains(errs, "not kept") {
		t.Errorf("%d %q %q", status, out, errs)
	}
	var err error
	lock, err = lockedfile.OpenFile(strings.TrimPrefix(environ[0], "HOME=")+"/.config/quire/receipts.json.lock", os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, status := get(); status != 0 || out != "text" || strings.Count(errs, "The receipt was not kept: another process has locked the receipts") != 1 {
		t.Errorf("%d %q %q", status, out, errs)
	}
}

func TestCallsAndCreditsAreSumsOfEntries(t *testing.T) {
	t.Parallel()
	calls, credits := counted([]*client.ChainEntry{
		{Kind: "begins", Amount: 1000},
		{Kind: "admitted", Charge: "credits", Amount: 500},
		{Kind: "admitted", Charge: "quota"},
		{Kind: "admitted", Charge: "credits", Amount: 70},
		{Kind: "undone", Charge: "credits", Amount: 70},
		{Kind: "ledger", Type: "charge", Amount: -500},
		{Kind: "free", Charge: "credits", Amount: 500},
		{Kind: "late", Charge: "waived"},
		{Kind: "late", Charge: "credits", Amount: 9},
		{Kind: "unknown (7)", Amount: 3},
	})
	if calls != 3 || credits != 9 {
		t.Errorf("%d calls and %s credits", calls, credits)
	}
}
