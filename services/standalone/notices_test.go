package standalone

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTheNoticesAreOfWhatIsBuilt: THIRD_PARTY_NOTICES has a text for exactly the modules that programs are built from, at their
// versions.
func TestTheNoticesAreOfWhatIsBuilt(t *testing.T) {
	text, err := os.ReadFile("../../THIRD_PARTY_NOTICES")
	if err != nil {
		t.Fatal(err)
	}
	noticed := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(\S+ v\S+): \S+$`).FindAllStringSubmatch(string(text), -1) {
		noticed[match[1]] = true
	}
	built := map[string]bool{}
	for _, architecture := range []string{"amd64", "arm64"} {
		for _, module := range modulesOf(t, architecture) {
			built[module] = true
		}
	}
	if len(built) < 30 {
		t.Fatalf("only %d modules are built: %v", len(built), built)
	}
	for module := range built {
		if !noticed[module] {
			t.Errorf("THIRD_PARTY_NOTICES has no text of %s: run make notices", module)
		}
	}
	for module := range noticed {
		if !built[module] {
			t.Errorf("THIRD_PARTY_NOTICES has a text of %s, which nothing is built from: run make notices", module)
		}
	}
	for _, words := range []string{"Go's standard library: LICENSE", "Copyright 2009 The Go Authors."} {
		if !bytes.Contains(text, []byte(words)) {
			t.Errorf("THIRD_PARTY_NOTICES does not have %q", words)
		}
	}
}

// modulesOf lists the modules of others in the programs of the images.
func modulesOf(t *testing.T, architecture string) []string {
	t.Helper()
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}`
	command := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, "quire.dev/services/edge/cmd/edge",
		"quire.dev/services/billing/cmd/billing", "quire.dev/services/paste/cmd/paste", "quire.dev/services/lite/cmd/lite",
		"quire.dev/services/file/cmd/file", "quire.dev/services/standalone/cmd/quire")
	command.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+architecture, "CGO_ENABLED=0")
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	modules := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(modules)
	return slices.DeleteFunc(slices.Compact(modules), func(name string) bool { return name == "" })
}

func TestQuirePrintsTheNotices(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../THIRD_PARTY_NOTICES")
	if err != nil {
		t.Fatal(err)
	}
	out, errs, code := quire(t, t.TempDir(), nil, "licenses")
	if code != 0 || errs != "" || out != string(want) {
		t.Errorf("quire licenses ends with %d, %d bytes and %q, want the %d of THIRD_PARTY_NOTICES: run make notices", code, len(out), errs, len(want))
	}
}
