package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"quire.dev/pkg/views"
	"quire.dev/pkg/views/viewstest"
)

const childVariable = "QUIRE_TEST_SQLITE_CHILD" // path of the file that the child writes

func killConfig(path string) Config {
	return Config{Path: path, Collections: viewstest.KillCollections(), Synchronous: Normal, FreshIDs: 7}
}

// TestKilledChild is the process that TestKilledProcessKeepsWholeBatches
// kills; run by itself it has nothing to do.
func TestKilledChild(t *testing.T) {
	path := os.Getenv(childVariable)
	if path == "" {
		t.Skip("runs only as the child of TestKilledProcessKeepsWholeBatches")
	}
	viewstest.CommitUntilKilled(t, open(t, killConfig(path)))
}

func TestKilledProcessKeepsWholeBatches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "views.db")
	viewstest.Kill(t, "TestKilledChild", childVariable+"="+path, func() views.Store {
		if _, err := os.Stat(path + "-wal"); err != nil {
			t.Fatalf("a killed process leaves its log: %v", err)
		}
		s, err := Open(t.Context(), killConfig(path))
		if err != nil {
			t.Fatalf("open after kill: %v", err)
		}
		return s
	})
}
