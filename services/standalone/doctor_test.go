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
	out, stderr, code = quire(t, file, nil, "doctor", "--json")
	var got struct {
		Findings []struct{ Check, Result string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 1 || len(got.Findings) == 0 || got.Findings[0].Check != "data folder" || got.Findings[0].Result != "fail" {
		t.Errorf("exit status %d: %s%s, %v", code, out, stderr, err)
	}
}
