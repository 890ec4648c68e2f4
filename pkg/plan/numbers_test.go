package plan_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"quire.dev/pkg/plan"
)

// TestQuotaKeysHaveTheirNumbersEverywhere: programs that share no code with billing, and the document that they follow, list the
// same quota keys by number.
func TestQuotaKeysHaveTheirNumbersEverywhere(t *testing.T) {
	var names []string
	for _, k := range plan.QuotaKeys() {
		names = append(names, k.String())
	}
	for file, list := range map[string]string{
		"clients/go/verify.go":       `QuotaKey: word\(data\[13\], "",([^)]*)\)`,
		"clients/ts/src/receipts.ts": `const quotaKeys = \[([^\]]*)\]`,
	} {
		var got []string
		for _, name := range regexp.MustCompile(`["']([\w.]+)["']`).FindAllStringSubmatch(found(t, file, list)[0][1], -1) {
			got = append(got, name[1])
		}
		if !slices.Equal(got, names) {
			t.Errorf("%s has the quota keys %v, want %v", file, got, names)
		}
	}
	listed := map[string]string{}
	for _, cell := range found(t, "docs/journal.md", "\\| (\\d+) \\| `([\\w]+\\.[\\w]+)` ") {
		listed[cell[1]] = cell[2]
	}
	for i, name := range names {
		if number := strconv.Itoa(i + 1); listed[number] != name {
			t.Errorf("docs/journal.md has %q under the number %s, want %s", listed[number], number, name)
		}
	}
	if got := found(t, "verifier/src/prices.ts", `quotaKeys = (\d+);`)[0][1]; got != strconv.Itoa(len(names)) || len(listed) != len(names) {
		t.Errorf("the verifier knows %s quota keys, docs/journal.md %d, want %d", got, len(listed), len(names))
	}
}

// found returns the matches in a file of the repository, at least one.
func found(t *testing.T, file, pattern string) [][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(string(data), -1)
	if len(all) == 0 {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return all
}
