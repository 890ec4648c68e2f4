package k8scheck

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The functions below read pages of docs. Other tests keep these pages equal to the code.

// settingRow is a row of docs/settings.md: a setting, and the programs that read it.
var settingRow = regexp.MustCompile("(?m)^\\| `(QUIRE_[A-Z0-9_]+)` \\| ([a-z, ]+) \\|")

// Settings returns the settings that each service reads.
func Settings(root string) (map[string]map[string]bool, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/settings.md"))
	if err != nil {
		return nil, err
	}
	settings := map[string]map[string]bool{}
	for _, service := range []string{"edge", "billing", "paste", "lite", "file", "archive"} {
		settings[service] = map[string]bool{}
		for _, row := range settingRow.FindAllStringSubmatch(string(page), -1) {
			readers := strings.Split(row[2], ", ")
			settings[service][row[1]] = strings.HasPrefix(row[2], "all") || slices.Contains(readers, service)
		}
		if len(settings[service]) == 0 {
			return nil, errors.New("docs/settings.md lists no settings")
		}
	}
	return settings, nil
}

// Anchors returns the headings of a page in the form that links use.
func Anchors(path string) (map[string]bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	anchors := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchors[strings.ReplaceAll(strings.ToLower(strings.Trim(title, " \n`")), " ", "-")] = true
		}
	}
	return anchors, nil
}
