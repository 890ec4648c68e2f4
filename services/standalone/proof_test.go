package standalone

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"quire.dev/pkg/eventually"
)

// TestTheDocumentChecksAnEntryByHand runs the commands of docs/proof.md as they are.
func TestTheDocumentChecksAnEntryByHand(t *testing.T) {
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
	eventually.NoError(t, "the log has a checkpoint", func() error {
		answer, err := http.Get(child.base + "/log/checkpoint")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return errors.New(answer.Status)
		}
		return nil
	})
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
