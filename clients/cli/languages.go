package cli

import (
	"cmp"
	_ "embed"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"quire.dev/cli/internal/terminal"
)

// languageList has the names of each language that the service highlights, the most usual one first. A test of the service's
// highlighter writes it, so that the command line needs neither.
//
//go:embed languages.txt
var languageList string

// languages are the lists of names, and the most usual name by each of them.
//
//nolint:gochecknoglobals // a constant that has to be parsed
var languages = sync.OnceValues(func() (lists [][]string, usual map[string]string) {
	usual = make(map[string]string)
	for line := range strings.Lines(languageList) {
		names := strings.Fields(line)
		lists = append(lists, names)
		for _, name := range names {
			usual[name] = names[0]
		}
	}
	return lists, usual
})

// checkLanguage refuses the name of a language that the service would show as plain text.
func checkLanguage(language string) error {
	_, usual := languages()
	if language == "" || language == languageAuto || usual[strings.ToLower(language)] != "" {
		return nil
	}
	hint := ""
	if near := nearLanguage(strings.ToLower(language)); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return Usage("--%s %s: unknown language%s; quire paste languages lists them", flagLanguage, language, hint)
}

// nearLanguage returns the name that differs least from a mistyped one, by two letters at most, or else a name that begins with it.
func nearLanguage(typed string) string {
	const maxLength = 50 // of a name
	if len(typed) > maxLength {
		return ""
	}
	lists, _ := languages()
	near, least := "", 3
	for _, names := range lists {
		for _, name := range names {
			// Two letters are most of a short name.
			if d := distance(typed, name); d < least && 2*d < len(name) {
				near, least = name, d
			}
		}
	}
	if near != "" || len(typed) < 2 {
		return near
	}
	for _, names := range lists {
		if strings.HasPrefix(names[0], typed) && (near == "" || len(names[0]) < len(near)) {
			near = names[0]
		}
	}
	return near
}

// distance is the number of letters to insert, remove, replace or swap with the next one, to get from a to b.
func distance(a, b string) int {
	var before []int
	last, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}

// languageAuto is the language that the service detects from title and content.
const languageAuto = "auto"

// languageOf is the language of a file by its extension or name; languageAuto if unknown.
func languageOf(file string) string {
	_, usual := languages()
	file = strings.ToLower(filepath.Base(file))
	return cmp.Or(usual[strings.TrimPrefix(filepath.Ext(file), ".")], usual[file], languageAuto)
}

func completeLanguage(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	lists, _ := languages()
	out := []string{languageAuto}
	for _, names := range lists {
		out = append(out, names[0])
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// languageJSON is what languages prints with --json.
type languageJSON struct {
	Language string   `json:"language"`
	Aliases  []string `json:"aliases"`
}

func (a *app) languages() *cobra.Command {
	return &cobra.Command{
		Use:   "languages [text]",
		Short: "List the languages for highlighting",
		Long:  "List the languages for --lang and their other names, or those whose names contain a text. It works offline.",
		Args:  atMostOne,
		RunE: func(_ *cobra.Command, args []string) error {
			lists, _ := languages()
			table := terminal.NewTable(terminal.Column{Name: "LANGUAGE"}, terminal.Column{Name: "ALIASES", Shorten: true})
			for _, names := range lists {
				if len(args) == 1 && !slices.ContainsFunc(names, func(name string) bool { return strings.Contains(name, strings.ToLower(args[0])) }) {
					continue
				}
				if a.json {
					if err := a.printJSON(languageJSON{names[0], names[1:]}); err != nil {
						return err
					}
					continue
				}
				table.Add(cells(names[0], strings.Join(names[1:], " "))...)
			}
			if a.json {
				return nil
			}
			return table.Write(a.term, a.term.Out)
		},
	}
}
