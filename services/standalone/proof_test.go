package standalone

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
	"quire.dev/pkg/tilelog/tilelogtest"
)

// TestTheDocumentChecksByHand runs the commands of docs/proof.md as they are: of an entry of the log, and of an account.
func TestTheDocumentChecksByHand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "openssl", "sha256sum"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	child := launch(t, t.TempDir(), "QUIRE_CHECKPOINT_INTERVAL=1s")
	folder := t.TempDir()
	// The second account of a partition has a path.
	for n := 0; ; n++ {
		key := accountKeyOf(t, child.base, fmt.Sprintf("a%d@example.org", n))
		if status, body := called(t, http.MethodPost, child.base+"/api/dev/paste-lite/create", key, `{"content":"x"}`); status != http.StatusCreated {
			t.Fatalf("%d %s", status, body)
		}
		if bill := billOf(t, child.base, key); strings.Contains(billExtra(t, bill), `"bit":`) {
			if err := os.WriteFile(filepath.Join(folder, "bill.tlog-proof"), []byte(bill), 0o600); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	entry := byHand(t, "Check an entry by hand", folder, child.base)
	if len(entry) != 8 || strings.Join(entry[:3], " ") != "Signature Verified Successfully" || entry[3] != entry[4] || entry[5] != entry[6] || len(entry[7]) != 64 {
		t.Errorf("an entry: %q", entry)
	}
	account := byHand(t, "Check an account by hand", folder, child.base)
	if len(account) != 4 || len(account[0]) != 64 || account[0] != account[1] || len(account[2]) != 64 || account[2] != account[3] {
		t.Errorf("an account: %q", account)
	}
}

// byHand runs the commands in a section of docs/proof.md, and returns the words that they print.
func byHand(t *testing.T, title, folder, base string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	script := "set -eu\n"
	for _, block := range strings.Split(section, "```sh\n")[1:] {
		commands, _, _ := strings.Cut(block, "```")
		script += commands
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", script)
	command.Dir = folder
	command.Env = append(os.Environ(), "URL="+base, "LC_ALL=C.UTF-8")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s\n%s", title, err, out, &stderr)
	}
	return strings.Fields(strings.ReplaceAll(string(out), "  -", ""))
}

// billOf waits for the proof of an account's running month in which it has a receipt.
func billOf(t *testing.T, base, key string) (bill string) {
	t.Helper()
	url := base + "/api/users/user/statements/" + time.Now().UTC().Format("2006-01") + "/proof"
	eventually.NoError(t, "the account has a proof", func() error {
		status, body := called(t, http.MethodGet, url, key, "")
		if status != http.StatusOK || !strings.Contains(billExtra(t, body), `"receipt":`) {
			return fmt.Errorf("%d %s", status, body)
		}
		bill = body
		return nil
	})
	return bill
}

// billExtra is the JSON in a proof.
func billExtra(t *testing.T, bill string) string {
	t.Helper()
	_, extra, _ := strings.Cut(bill, "\nextra ")
	extra, _, _ = strings.Cut(extra, "\n")
	text, err := base64.StdEncoding.DecodeString(extra)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// checkpointOf waits for a checkpoint of a log with a number of entries, and returns its tree.
func checkpointOf(t *testing.T, base string, entries int64) (tree tlog.Tree) {
	t.Helper()
	eventually.NoError(t, fmt.Sprintf("the log has a checkpoint of %d entries", entries), func() (err error) {
		tree, err = tilelogtest.Served{Base: base}.Checkpoint(t.Context())
		if err == nil && tree.N < entries {
			err = fmt.Errorf("it has %d", tree.N)
		}
		return err
	})
	return tree
}

// checkConsistent fails unless the log in a folder of blobs goes on from an earlier tree to a later one.
func checkConsistent(t *testing.T, blobs string, old, tree tlog.Tree) {
	t.Helper()
	consistency, err := tilelog.NewReader(disk.Reading(blobs), proof.LogPrefix).ProveConsistency(t.Context(), old.N, tree)
	if err == nil {
		err = tlog.CheckTree(consistency, tree.N, tree.Hash, old.N, old.Hash)
	}
	if err != nil {
		t.Errorf("the log of %d entries does not continue the one of %d: %v", tree.N, old.N, err)
	}
}
