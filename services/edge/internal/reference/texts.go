package reference

import (
	"fmt"
	"html/template"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"quire.dev/services/edge/internal/fault"
)

// exampleBase is the server's URL in the files, as started by `make run`. Pages replace it with the server's own.
const exampleBase = "http://127.0.0.1:8080"

// guide is a text on one subject.
type guide struct {
	Name, Title, Summary string
	Source               string // Markdown, with the address of this server
}

// guidesIn reads the guides of a folder. Its README.md lists them in order, with titles and summaries.
func guidesIn(folder fs.FS, base string) ([]guide, error) {
	index, err := fs.ReadFile(folder, "README.md")
	if err != nil {
		return nil, fmt.Errorf("read the list of guides: %w", err)
	}
	var out []guide
	for _, m := range regexp.MustCompile(`(?m)^- \[(.+?)\]\((.+?)\.md\): (.+)$`).FindAllStringSubmatch(string(index), -1) {
		source, err := fs.ReadFile(folder, m[2]+".md")
		if err != nil {
			return nil, fmt.Errorf("read guide %s: %w", m[2], err)
		}
		out = append(out, guide{
			Name: m[2], Title: m[1], Summary: m[3], Source: strings.ReplaceAll(string(source), exampleBase, base),
		})
	}
	return out, nil
}

// failure is a code of the API's errors.
type failure struct {
	Code               string
	Status             int
	Cause, Fix         string // Markdown
	CauseHTML, FixHTML template.HTML
}

// errorsIn reads docs/errors.md: an introduction, and the cause and fix of each code.
func errorsIn(source string, m markdown) (intro string, codes []failure, err error) {
	sections := regexp.MustCompile(`(?m)^## (\w+)$`)
	places := sections.FindAllStringSubmatchIndex(source, -1)
	if len(places) == 0 {
		return "", nil, fmt.Errorf("the text about errors has no sections")
	}
	_, intro, _ = strings.Cut(source[:places[0][0]], "\n")
	for i, at := range places {
		end := len(source)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		code := source[at[2]:at[3]]
		cause, fix, found := strings.Cut(source[at[1]:end], "**Fix.** ")
		cause, marked := strings.CutPrefix(strings.TrimSpace(cause), "**Cause.** ")
		if !found || !marked {
			return "", nil, fmt.Errorf("the section about the error %s has no cause or no fix", code)
		}
		fix = strings.TrimSpace(fix)
		codes = append(codes, failure{
			Code: code, Status: fault.Kind(code).Status(), Cause: cause, Fix: fix, CauseHTML: m.inline(cause), FixHTML: m.inline(fix),
		})
	}
	slices.SortStableFunc(codes, func(a, b failure) int { return a.Status - b.Status })
	return strings.TrimSpace(intro), codes, nil
}
