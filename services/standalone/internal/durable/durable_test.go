package durable

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAFileIsReplacedAndNothingElseIsLeft(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	for _, content := range []string{"first", "second", ""} {
		if err := Write(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q, %v, want %q", got, err, content)
		}
	}
	if entries, err := os.ReadDir(folder); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestAFailureNamesTheFileAndKeepsTheOldOne(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".tmp", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "old" {
		t.Errorf("%q, %v", got, err)
	}
	if err := SyncFolder(filepath.Join(folder, "missing")); err == nil {
		t.Error("a missing folder was synced")
	}
}
