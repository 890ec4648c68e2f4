package check

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What the project itself says, read from its sources, so that nothing here has to be kept in step by hand.

// settingRow is a row of docs/settings.md: a setting, and the programs that read it.
var settingRow = regexp.MustCompile("(?m)^\\| `(QUIRE_[A-Z0-9_]+)` \\| ([a-z, ]+) \\|")

// Settings gives the settings that each service reads. A test of pkg/host holds the page to the code.
func Settings(root string) (map[string]map[string]bool, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/settings.md"))
	if err != nil {
		return nil, err
	}
	settings := map[string]map[string]bool{}
	for _, service := range []string{"edge", "billing", "paste", "lite", "file"} {
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

// sources gives every Go file of folders that is no test, and is at least one for each.
func sources(root string, dirs []string, see func(text string)) error {
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			return err
		}
		seen := 0
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			see(string(text))
			seen++
		}
		if seen == 0 {
			return fmt.Errorf("%s has no sources", dir)
		}
	}
	return nil
}

var listedMetric = regexp.MustCompile("(?m)^\\| `(quire_\\w+)`")

// Metrics gives the names of the metrics of docs/metrics.md, which a scenario test writes from a running Quire.
func Metrics(root string) (map[string]bool, error) {
	page, err := os.ReadFile(filepath.Join(root, "docs/metrics.md"))
	if err != nil {
		return nil, err
	}
	metrics := map[string]bool{}
	for _, match := range listedMetric.FindAllStringSubmatch(string(page), -1) {
		metrics[match[1]] = true
	}
	return metrics, nil
}

// Anchors gives the headings of a page as links name them.
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
