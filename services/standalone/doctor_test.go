package standalone

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDoctorEndsWithOneWhereACheckHasFailed, and prints for people or for programs.
func TestDoctorEndsWithOneWhereACheckHasFailed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr, code := quire(t, file, nil, "doctor")
	if code != 1 || !strings.Contains(out, "fail  data folder: "+file+" is no folder\n      Set QUIRE_DATA") || !strings.Contains(stderr, "a check has failed") {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
	if got, out := findings(t, file, nil); len(got) == 0 || got[0] != (finding{"data folder", "fail"}) {
		t.Errorf("found %s", out)
	}
}

type finding struct{ Check, Result string }

func (f finding) failed() bool { return f.Result == "fail" }

// findings are what doctor prints for programs. Its exit status must be 1 if a check has failed, and else 0.
func findings(t *testing.T, folder string, settings []string) (list []finding, out string) {
	t.Helper()
	out, stderr, code := quire(t, folder, settings, "doctor", "--json")
	var got struct{ Findings []finding }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr)
	}
	if failed := slices.ContainsFunc(got.Findings, finding.failed); code > 1 || (code == 1) != failed {
		t.Errorf("exit status %d: %s%s", code, out, stderr)
	}
	return got.Findings, out
}

// passesDoctor fails the test if a check fails, except for the room that this machine has. It returns what doctor prints.
func passesDoctor(t *testing.T, folder string, settings []string) (out string) {
	t.Helper()
	list, out := findings(t, folder, settings)
	others := func(f finding) bool { return f.failed() && f.Check != "room for the data folder" }
	if len(list) == 0 || slices.ContainsFunc(list, others) {
		t.Errorf("doctor: %s", out)
	}
	return out
}
