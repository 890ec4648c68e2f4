package datafolder

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T, path string, opts Options) *Folder {
	t.Helper()
	f, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func close(t *testing.T, f *Folder) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// snapshot returns all files except LOCK, with hashes of their contents.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == lockFile {
			return err
		}
		content := "dir"
		if !d.IsDir() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			content = string(sum[:])
		}
		out[path] = content
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFirstStartMakesAPrivateFolderAndLaterStartsKeepIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "data")
	f := open(t, path, Options{})
	if !f.First || !f.Clean || len(f.Secret) < 32 || len(f.AdminToken) < 32 {
		t.Fatalf("first start: %+v", f)
	}
	if err := f.Record([]string{"LITE_0", "BILLING_0"}); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", p, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if f.Welcomed() {
		t.Error("welcomed before Welcome")
	}
	if err := f.Welcome(); err != nil {
		t.Fatal(err)
	}
	secret, admin := string(f.Secret), f.AdminToken
	close(t, f)
	g := open(t, path, Options{})
	defer close(t, g)
	if g.First || string(g.Secret) != secret || g.AdminToken != admin {
		t.Fatalf("second start changed something: %+v", g)
	}
	if got := strings.Join(g.Streams(), " "); got != "BILLING_0 LITE_0" {
		t.Fatalf("streams: %s", got)
	}
	if !g.Welcomed() {
		t.Error("not welcomed any more")
	}
	if g.Clean {
		t.Fatal("a folder that was never stopped in order is not clean")
	}
}

func TestOrderlyStopIsRemembered(t *testing.T) {
	path := t.TempDir()
	f := open(t, path, Options{})
	if err := f.Started(); err != nil {
		t.Fatal(err)
	}
	if err := f.Stopped(); err != nil {
		t.Fatal(err)
	}
	close(t, f)
	g := open(t, path, Options{})
	if !g.Clean {
		t.Fatal("not clean after an orderly stop")
	}
	if err := g.Started(); err != nil {
		t.Fatal(err)
	}
	close(t, g)
	h := open(t, path, Options{})
	defer close(t, h)
	if h.Clean {
		t.Fatal("clean after a start without a stop")
	}
}

func TestSecondProcessIsRefusedByName(t *testing.T) {
	path := t.TempDir()
	f := open(t, path, Options{})
	if err := f.Announce("http://127.0.0.1:9", "http://127.0.0.1:10"); err != nil {
		t.Fatal(err)
	}
	_, err := Open(path, Options{})
	if !errors.Is(err, ErrInUse) {
		t.Fatalf("second open: %v", err)
	}
	for _, want := range []string{path, "process", "http://127.0.0.1:9"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not name %q", err, want)
		}
	}
	h, running, err := Running(path)
	if err != nil || !running || h.PID != os.Getpid() || h.URL != "http://127.0.0.1:9" || h.AdminURL != "http://127.0.0.1:10" {
		t.Fatalf("running: %+v %v %v", h, running, err)
	}
	close(t, f)
	if _, running, err := Running(path); err != nil || running {
		t.Fatalf("after close: %v %v", running, err)
	}
	close(t, open(t, path, Options{}))
}

func TestWhatIsNotInOrderIsRefusedAndLeftAlone(t *testing.T) {
	tests := []struct {
		name   string
		break_ func(path string) error
		opts   Options
		want   error
		says   string
	}{
		{"newer version", func(p string) error {
			return os.WriteFile(filepath.Join(p, versionFile), []byte("2\nwhatever\n"), 0o600)
		}, Options{}, ErrNewer, "start the newer quire"},
		{"unreadable version", func(p string) error {
			return os.WriteFile(filepath.Join(p, versionFile), []byte("\x00\x01"), 0o600)
		}, Options{}, ErrDamaged, "VERSION"},
		{"empty version", func(p string) error {
			return os.WriteFile(filepath.Join(p, versionFile), nil, 0o600)
		}, Options{}, ErrDamaged, "VERSION"},
		{"missing version", func(p string) error { return os.Remove(filepath.Join(p, versionFile)) }, Options{}, ErrDamaged, "VERSION is missing"},
		{"missing secret", func(p string) error { return os.Remove(filepath.Join(p, secretFile)) }, Options{}, ErrDamaged, "secret is missing"},
		{"changed secret", func(p string) error {
			return os.WriteFile(filepath.Join(p, secretFile), []byte("another"), 0o600)
		}, Options{}, ErrDamaged, "secret"},
		{"other secret from outside", func(string) error { return nil }, Options{Secret: "another"}, ErrSecret, "QUIRE_SECRET"},
		{"missing journals", func(p string) error { return os.RemoveAll(filepath.Join(p, "nats")) }, Options{}, ErrDamaged, "nats"},
		{"missing views", func(p string) error { return os.RemoveAll(filepath.Join(p, "views")) }, Options{}, ErrDamaged, "views"},
		{"missing blobs", func(p string) error { return os.RemoveAll(filepath.Join(p, "blobs")) }, Options{}, ErrDamaged, "blobs"},
		{"empty admin token", func(p string) error {
			return os.WriteFile(filepath.Join(p, adminFile), nil, 0o600)
		}, Options{}, ErrDamaged, "admin-token"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := t.TempDir()
			f := open(t, path, Options{})
			if err := os.WriteFile(filepath.Join(f.NATS(), "journal"), []byte("data"), 0o600); err != nil {
				t.Fatal(err)
			}
			close(t, f)
			if err := test.break_(path); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, path)
			_, err := Open(path, test.opts)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("got %v, want %v saying %q", err, test.want, test.says)
			}
			after := snapshot(t, path)
			if len(before) != len(after) {
				t.Fatalf("files changed: %d before, %d after", len(before), len(after))
			}
			for name, sum := range before {
				if after[name] != sum {
					t.Errorf("%s changed", name)
				}
			}
		})
	}
}

func TestForeignFolderIsRefused(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "thesis.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Fatalf("got %v", err)
	}
	if exists(filepath.Join(path, lockFile)) {
		t.Fatal("a lock file was put into a foreign folder")
	}
}

func TestFirstStartCutShortIsTakenUpAgain(t *testing.T) {
	path := t.TempDir()
	for _, part := range parts()[:2] {
		if err := os.Mkdir(filepath.Join(path, part), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, secretFile), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, Options{})
	defer close(t, f)
	if !f.First {
		t.Fatal("not a first start")
	}
}

func TestSecretFromOutsideIsNotStored(t *testing.T) {
	path := t.TempDir()
	f := open(t, path, Options{Secret: "given", AdminToken: "given too"})
	close(t, f)
	if exists(filepath.Join(path, secretFile)) || exists(filepath.Join(path, adminFile)) {
		t.Fatal("a given secret was written down")
	}
	g := open(t, path, Options{Secret: "given", AdminToken: "another"})
	defer close(t, g)
	if string(g.Secret) != "given" || g.AdminToken != "another" {
		t.Fatalf("%+v", g)
	}
}

// TestTheSecretCanBeReplaced: the folder opens with another secret if the previous one is accepted too, and belongs to the new
// one from then on.
func TestTheSecretCanBeReplaced(t *testing.T) {
	path := t.TempDir()
	f := open(t, path, Options{})
	made := f.Secret
	close(t, f)
	const second, third = "the second secret", "the third secret"
	if _, err := Open(path, Options{Secret: second, Previous: [][]byte{[]byte(third)}}); !errors.Is(err, ErrSecret) {
		t.Fatalf("without the secret of before: %v", err)
	}
	close(t, open(t, path, Options{Secret: second, Previous: [][]byte{[]byte(third), made}}))
	g := open(t, path, Options{Secret: second})
	if string(g.Secret) != second {
		t.Errorf("secret %q", g.Secret)
	}
	close(t, g)
	if _, err := Open(path, Options{Secret: string(made)}); !errors.Is(err, ErrSecret) {
		t.Fatalf("with the secret of before alone: %v", err)
	}
}
