package scenario

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestAFolderOfTheFirstVersionOpens: a program of the first version of billing's rules made it. An account on Pro has made 101
// uploads, of which the last was paid, and a quick paste. Its audit matched. What was decided stays, and calls go on.
func TestAFolderOfTheFirstVersionOpens(t *testing.T) {
	t.Parallel()
	if *processes == "many" {
		t.Skip("the folder is one of a single process")
	}
	folder := t.TempDir()
	unpack(t, filepath.Join("testdata", "v1.tar.gz"), filepath.Join(folder, "data"))
	i := start(t, in(folder), with("QUIRE_SECRET", "0123456789abcdef0123456789abcdef"))
	a := account{i: i, id: "0zx5UnJwXsz", key: "qk_9mNf3mixU3a0zx5UnJwXsz000001FXAEovAWwx77hwIzKAaVdP"}
	for range 2 {
		i.audit(t)
		statement := a.do(t, http.MethodGet, "/api/users/user/statements/2026-11", nil).ok(t, http.StatusOK)
		if used, overage := number(t, statement, "usage", "files.upload", "requests"), number(t, statement, "usage", "files.upload", "overage"); used < 101 || overage < 1 {
			t.Errorf("%d uploads, %d paid", used, overage)
		}
		entries := checkLedger(t, a)
		if first := entries[len(entries)-2:]; first[0].kind != "charge" || first[0].amount != "-0.005000" || first[1].amount != "1.000000" {
			t.Errorf("the ledger begins with %v", first)
		}
		paste := a.do(t, http.MethodGet, "/api/dev/paste-lite/get/IaMFh2JTAEru", nil).ok(t, http.StatusOK)
		if content := text(t, paste, "paste", "content"); content != "from before" {
			t.Errorf("the paste reads %q", content)
		}
		a.upload(t, "f", []byte("x"))
		i.restart(t)
	}
	i.audit(t)
}

func unpack(t *testing.T, from, to string) {
	t.Helper()
	file, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for files := tar.NewReader(packed); ; {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, head.Name)
		if head.FileInfo().IsDir() {
			err = os.MkdirAll(path, 0o700)
		} else {
			var data []byte
			if data, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, data, fs.FileMode(head.Mode).Perm())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
