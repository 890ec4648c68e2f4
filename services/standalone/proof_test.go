package standalone

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
	"quire.dev/pkg/tilelog/tilelogtest"
)

// TestTheDocumentChecksAnEntryByHand runs the commands of docs/proof.md as they are.
func TestTheDocumentChecksAnEntryByHand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "openssl", "sha256sum"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	page, err := os.ReadFile("../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## Check an entry by hand\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var script strings.Builder
	script.WriteString("set -eu\n")
	blocks := strings.Split(section, "```sh\n")[1:]
	for _, block := range blocks {
		commands, _, _ := strings.Cut(block, "```")
		script.WriteString(commands)
	}
	child := launch(t, t.TempDir())
	accountKey(t, child.base)
	checkpointOf(t, child.base, 1)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", script.String())
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "URL="+child.base, "LC_ALL=C.UTF-8")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, out, &stderr)
	}
	lines := strings.Fields(strings.NewReplacer("  -", "").Replace(string(out)))
	if len(blocks) != 4 || len(lines) != 8 || strings.Join(lines[:3], " ") != "Signature Verified Successfully" || lines[3] != lines[4] || lines[5] != lines[6] || len(lines[7]) != 64 {
		t.Errorf("%d blocks print %q: %s", len(blocks), lines, &stderr)
	}
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
