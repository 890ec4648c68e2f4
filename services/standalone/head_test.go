package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"quire.dev/pkg/natsfiles"
	"quire.dev/pkg/natsfiles/natsfilestest"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
)

// TestAnAuditComparesTheHeadKeptElsewhere: it notices what was edited with all that the data folder has about the journal.
func TestAnAuditComparesTheHeadKeptElsewhere(t *testing.T) {
	t.Parallel()
	folder, head := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "head.json")
	admin := []string{"QUIRE_ADMIN_TOKEN=" + testAdminToken}
	c := launch(t, folder)
	key := accountKey(t, c.base)
	createQuickPaste(t, c.base, key)
	audit := func(file string, code int, says string) {
		t.Helper()
		out, errs, got := quire(t, folder, admin, "audit", "--head", file)
		if got != code || !strings.Contains(out+errs, says) {
			t.Errorf("want %d and %q: %d %q %q", code, says, got, out, errs)
		}
	}
	audit(head, 0, "heads of 1 partitions written")
	createQuickPaste(t, c.base, key)
	audit(head, 0, "partition 0: has the head of sequence")
	audit(filepath.Join(folder, "head.json"), 1, "is in the data folder")
	kept, err := os.ReadFile(head)
	if err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(string) string{
		"is CUT OFF":  func(s string) string { return strings.Replace(s, `"sequence": `, `"sequence": 99999`, 1) },
		"invalid":     func(s string) string { return s[1:] },
		"has none":    func(string) string { return "{}" },
		"is no file":  func(s string) string { return strings.Replace(s, `"chain": "`, `"chain": "00`, 1) },
		"DIFFERS":     otherChain,
		"partitions ": func(s string) string { return strings.Replace(s, `"partition": 0`, `"partition": 7`, 1) },
	} {
		other := filepath.Join(t.TempDir(), "other.json")
		if err := os.WriteFile(other, []byte(change(string(kept))), 0o600); err != nil {
			t.Fatal(err)
		}
		audit(other, 1, says)
	}
	if err := c.end(t, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	audit(head, 0, "partition 0: has the head of sequence")
	forget(t, folder)
	natsfilestest.Rewrite(t, filepath.Join(folder, "nats"), "BILLING_0", func(m []natsfiles.Message) []natsfiles.Message {
		m[1].Time = m[1].Time.Add(1)
		return m
	})
	if out, errs, code := quire(t, folder, admin, "audit"); code != 0 || !strings.Contains(out, "everything matches") {
		t.Errorf("an audit without the head: %d %q %q", code, out, errs)
	}
	audit(head, 1, "partition 0: DIFFERS from its head")
}

// otherChain changes the first digit of the chain.
func otherChain(file string) string {
	before, chain, _ := strings.Cut(file, `"chain": "`)
	digit := "0"
	if strings.HasPrefix(chain, digit) {
		digit = "1"
	}
	return before + `"chain": "` + digit + chain[1:]
}

// forget removes the snapshots and the read model's head of the chain from the folder of a stopped process.
func forget(t *testing.T, folder string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(folder, "blobs", "keys", "billing")); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(folder, "views", "billing.db"), Collections: billing.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Commit(t.Context(), views.Batch{Deletes: []views.Delete{{Collection: "billing_heads", ID: "BILLING_0", Seq: 1 << 60}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}
