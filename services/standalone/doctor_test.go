package standalone

import (
	"encoding/json"
	"os"
	"path/filepath"
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
	if got := findings(t, file, nil); len(got) == 0 || got[0] != (finding{"data folder", "fail"}) {
		t.Errorf("found %v", got)
	}
}

type finding struct{ Check, Result string }

func findings(t *testing.T, folder string, settings []string) []finding {
	t.Helper()
	out, stderr, _ := quire(t, folder, settings, "doctor", "--json")
	var got struct{ Findings []finding }
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s%s", err, out, stderr)
	}
	return got.Findings
}

// passesDoctor fails the test if a check fails, except for the room that this machine has.
func passesDoctor(t *testing.T, folder string, settings []string) {
	t.Helper()
	got := findings(t, folder, settings)
	if len(got) == 0 {
		t.Error("doctor checks nothing")
	}
	for _, f := range got {
		if f.Result == "fail" && f.Check != "room for the data folder" {
			t.Errorf("doctor: %v", got)
		}
	}
}
