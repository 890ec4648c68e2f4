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

// What the README shows is part of the examples, which are run.
func TestTheReadmeShowsTheExamples(t *testing.T) {
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("%d blocks", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(unindented(t, string(examples)), unindented(t, block)) {
			t.Errorf("no example has\n%s", block)
		}
	}
}
