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

var (
	wholeName = regexp.MustCompile(`"(quire_[a-z0-9_]+)"`)
	descName  = regexp.MustCompile(`Service: "(\w+)",\s*Name: "(\w+)"`)
	shortName = regexp.MustCompile(`desc\("(\w+)"`)
)

// Metrics gives the names of the metrics that the services show.
func Metrics(root string) (map[string]bool, error) {
	metrics := map[string]bool{}
	// Files that call desc("name", …) do so for these.
	short := map[string][]string{
		"pkg/document":                        {"paste", "lite", "file"},
		"services/billing/internal/partition": {"billing"},
	}
	for _, dir := range []string{"services/edge/internal/bus", "services/edge/internal/web", "pkg/document", "services/billing/internal/partition"} {
		err := sources(root, []string{dir}, func(text string) {
			for _, match := range wholeName.FindAllStringSubmatch(text, -1) {
				metrics[match[1]] = true
			}
			for _, match := range descName.FindAllStringSubmatch(text, -1) {
				metrics["quire_"+match[1]+"_"+match[2]] = true
			}
			for _, match := range shortName.FindAllStringSubmatch(text, -1) {
				for _, service := range short[dir] {
					metrics["quire_"+service+"_"+match[1]] = true
				}
			}
		})
		if err != nil {
			return nil, err
		}
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
