package render_test

import (
	"cmp"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/chroma/v2/lexers"
)

var update = flag.Bool("update", false, "write the command line's list of languages again")

// languageList is read by the command line, which checks --lang without a server and has no highlighter itself.
const languageList = "../../../../clients/cli/languages.txt"

// TestTheCommandLineKnowsTheLanguages writes the names of each language that the API accepts and highlights, the most usual
// one first, each language in a line.
func TestTheCommandLineKnowsTheLanguages(t *testing.T) {
	known := patient().Languages()
	accepted := regexp.MustCompile(`^[a-z0-9+#._-]{1,50}$`)   // docs/api.md, the field language
	lines := []string{"plaintext text txt plain none", "tsv"} // tsv is a table without a lexer
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		config := lexer.Config()
		if known.Name(config.Name) == "" {
			continue // plain text
		}
		names := append([]string{strings.ToLower(config.Name)}, config.Aliases...)
		for _, glob := range config.Filenames {
			if end, ok := strings.CutPrefix(glob, "*."); ok {
				names = append(names, end)
			}
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return !accepted.MatchString(name) || known.Name(name) != known.Name(config.Name)
		})
		if names = unique(names); len(names) > 0 {
			lines = append(lines, strings.Join(names, " "))
		}
	}
	slices.SortFunc(lines, cmp.Compare[string])
	want := strings.Join(slices.Compact(lines), "\n") + "\n"
	if *update {
		if err := os.WriteFile(languageList, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(languageList); err != nil || string(got) != want {
		t.Errorf("%s is stale: go test ./services/edge/internal/render -run TestTheCommandLineKnowsTheLanguages -update (%v)", languageList, err)
	}
}

// unique is names without those that came before.
func unique(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		before := seen[name]
		seen[name] = true
		return before
	})
}
