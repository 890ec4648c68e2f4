package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What the project itself says, read from its sources, so that nothing here has to be kept in step by hand.

// settingName is a setting as the sources name it.
var settingName = regexp.MustCompile(`"(QUIRE_[A-Z0-9_]+)"`)

// Settings gives the settings that each service's command knows.
func Settings(root string) (map[string]map[string]bool, error) {
	process := []string{"pkg/document/process"}
	folders := map[string][]string{
		"edge": {"services/edge/cmd/edge"}, "billing": {"services/billing/cmd/billing"},
		"paste": process, "lite": process, "file": process,
	}
	settings := map[string]map[string]bool{}
	for service, dirs := range folders {
		settings[service] = map[string]bool{}
		err := sources(root, dirs, func(text string) {
			for _, match := range settingName.FindAllStringSubmatch(text, -1) {
				settings[service][match[1]] = true
			}
		})
		if err != nil {
			return nil, err
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
