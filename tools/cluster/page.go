package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Commands returns the commands of a heading's first code block in docs/refusals.md, for a drill that runs them as they are.
func Commands(heading string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "refusals.md"))
	if err != nil {
		return "", err
	}
	_, section, found := strings.Cut(string(page), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, block, fenced := strings.Cut(section, "\n```\n")
	block, _, ended := strings.Cut(block, "```")
	if !found || !fenced || !ended {
		return "", fmt.Errorf("docs/refusals.md has no commands under %q", heading)
	}
	return block, nil
}
