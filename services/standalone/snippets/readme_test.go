package snippets

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheReadmeDoesWhatItShows types the bash of the README, with the address and the key exported as it says.
func TestTheReadmeDoesWhatItShows(t *testing.T) {
	needTools(t)
	i := start(t)
	text, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(found) == 0 {
		t.Fatal("the README has no bash")
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "README.md"), string(text))
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for _, block := range found {
		script.WriteString(block[1])
	}
	write(t, filepath.Join(folder, "readme.sh"), script.String())
	_, key := i.account(t, "readme@example.org", "pro")
	variables := map[string]string{"QUIRE_URL": i.public, "QUIRE_API_KEY": key, "PATH": os.Getenv("PATH")}
	out, err := run(t, folder, variables, "bash", "readme.sh")
	if err != nil || !strings.Contains(out, `"decision"`) {
		t.Errorf("%v\n%s", err, out)
	}
	for _, c := range i.seen() {
		if c.status >= 400 {
			t.Errorf("%v", c)
		}
	}
}
