package client_test

import (
	"os"
	"strings"
	"testing"
)

// unindented are the lines of a Go source or a README without the spaces before them.
func unindented(t *testing.T, text string) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	for n, line := range lines {
		lines[n] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

// What the README and the guide show is part of the examples, which are run.
func TestDocumentsShowTheExamples(t *testing.T) {
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, least := range map[string]int{"README.md": 5, "../../docs/guides/clients.md": 2} {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) && name != "README.md" {
			continue // the module alone has no guides
		}
		if err != nil {
			t.Fatal(err)
		}
		blocks := strings.Split(string(text), "```go\n")[1:]
		if len(blocks) < least {
			t.Errorf("%s has %d blocks", name, len(blocks))
		}
		for _, block := range blocks {
			block, _, _ = strings.Cut(block, "```")
			if !strings.Contains(unindented(t, string(examples)), unindented(t, block)) {
				t.Errorf("no example has this of %s:\n%s", name, block)
			}
		}
	}
}
