package witness

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// spy calls before once, when an answer begins.
type spy struct {
	http.ResponseWriter
	before func()
}

func (s *spy) begin() {
	if s.before != nil {
		s.before()
		s.before = nil
	}
}

func (s *spy) WriteHeader(status int) {
	s.begin()
	s.ResponseWriter.WriteHeader(status)
}

func (s *spy) Write(data []byte) (int, error) {
	s.begin()
	return s.ResponseWriter.Write(data)
}

// TestACheckpointIsOnTheDiskBeforeItsAnswer: a kill before the first byte of the answer leaves a witness that knows the checkpoint,
// refuses another history, and cosigns the same again for a log that has not heard the answer.
func TestACheckpointIsOnTheDiskBeforeItsAnswer(t *testing.T) {
	l := newLog(t, origin).grow(9, "a")
	fork := l.fork(3).grow(9, "b")
	folder := t.TempDir()
	s := open(t, folder, l.key)
	var killed *Server
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(&spy{w, func() { killed, _ = reopen(t, folder, l.key) }}, r)
	}))
	want(t, url, l.body(0, 5), http.StatusOK, "")
	if killed.VerifierKey() != s.VerifierKey() || killed.Created() {
		t.Errorf("another key: %s", killed.VerifierKey())
	}
	again := serve(t, killed)
	want(t, again, l.body(0, 5), http.StatusConflict, "5\n")
	want(t, again, fork.body(5, 5), http.StatusConflict, "5\n")
	want(t, again, fork.body(5, 6), http.StatusUnprocessableEntity, "")
	want(t, again, l.body(5, 5), http.StatusOK, "")
	want(t, again, l.body(5, 9), http.StatusOK, "")
}

// TestAKillWithinAWriteLeavesTheCheckpointBefore: a temporary file, whatever it has, is replaced.
func TestAKillWithinAWriteLeavesTheCheckpointBefore(t *testing.T) {
	l := newLog(t, origin).grow(9, "a")
	folder := t.TempDir()
	s := open(t, folder, l.key)
	want(t, serve(t, s), l.body(0, 3), http.StatusOK, "")
	next := l.checkpoint(5)
	for _, written := range [][]byte{nil, next[:len(next)/2], next} {
		if err := os.WriteFile(s.folder.logPath(origin)+".tmp", written, 0o600); err != nil {
			t.Fatal(err)
		}
		killed, copied := reopen(t, folder, l.key)
		url := serve(t, killed)
		want(t, url, l.body(5, 6), http.StatusConflict, "3\n")
		want(t, url, l.body(3, 4), http.StatusOK, "")
		if left, err := filepath.Glob(filepath.Join(copied, logFolder, "*.tmp")); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// TestAKillWithinTheFirstStart: whatever of the key was written, there is one key afterwards.
func TestAKillWithinTheFirstStart(t *testing.T) {
	l := newLog(t, origin)
	for name, left := range map[string][]string{"lock": {lockFile}, "part of a key": {lockFile, keyFile + ".tmp"}} {
		folder := t.TempDir()
		for _, file := range left {
			if err := os.WriteFile(filepath.Join(folder, file), []byte("PRIV"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, folder, l.key)
		if key, err := ReadKey(folder); !s.Created() || err != nil || key != s.VerifierKey() {
			t.Errorf("%s: %v, %q, %v", name, s.Created(), key, err)
		}
	}
}

func TestAKeyIsCreatedOnce(t *testing.T) {
	l := newLog(t, origin)
	folder := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, folder, l.key)
	if !s.Created() || !strings.HasPrefix(s.VerifierKey(), "witness.example/w1+") {
		t.Errorf("%v, %s", s.Created(), s.VerifierKey())
	}
	path := filepath.Join(folder, keyFile)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := s.folder.createKey("another"); err == nil {
		t.Error("a key was overwritten")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Folder: folder, Logs: []string{l.key}, Name: "other"}); err == nil || !strings.Contains(err.Error(), "witness.example/w1") {
		t.Errorf("another name: %v", err)
	}
	again, err := Open(Config{Folder: folder, Logs: []string{l.key}})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.Created() || again.VerifierKey() != s.VerifierKey() {
		t.Errorf("%v, %s, want %s", again.Created(), again.VerifierKey(), s.VerifierKey())
	}
}

// TestADamagedFolderIsRefused: starting with it would forget what was cosigned. The error names the file and a way out.
func TestADamagedFolderIsRefused(t *testing.T) {
	l, other := newLog(t, origin).grow(9, "a"), newLog(t, "other.example").grow(9, "a")
	folder := t.TempDir()
	s := open(t, folder, l.key, other.key)
	url := serve(t, s)
	want(t, url, l.body(0, 9), http.StatusOK, "")
	want(t, url, other.body(0, 9), http.StatusOK, "")
	relative, err := filepath.Rel(folder, s.folder.logPath(origin))
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(s.folder.logPath(origin))
	if err != nil {
		t.Fatal(err)
	}
	others, err := os.ReadFile(s.folder.logPath("other.example"))
	if err != nil {
		t.Fatal(err)
	}
	strangers := newLog(t, "witness.example/w1").sign(string(good[:bytes.Index(good, []byte("\n\n"))+1]))
	file := func(name string, data []byte) func(string) error {
		return func(folder string) error { return os.WriteFile(filepath.Join(folder, name), data, 0o600) }
	}
	remove := func(name string) func(string) error {
		return func(folder string) error { return os.RemoveAll(filepath.Join(folder, name)) }
	}
	for name, test := range map[string]struct {
		damage func(folder string) error
		says   string
	}{
		"empty":                   {file(relative, nil), "new witness in another folder"},
		"cut off":                 {file(relative, good[:len(good)/2]), "newest such checkpoint"},
		"of another log":          {file(relative, others), "it is of other.example"},
		"not cosigned":            {file(relative, l.checkpoint(9)), "newest such checkpoint"},
		"of another witness":      {file(relative, strangers), "newest such checkpoint"},
		"checkpoints without key": {remove(keyFile), "has checkpoints but no key"},
		"key without checkpoints": {remove(logFolder), logFolder + " is missing"},
		"empty key":               {file(keyFile, nil), "not a note signer key"},
		"key of a verifier":       {file(keyFile, []byte(s.VerifierKey()+"\n")), "not a note signer key"},
		"key with another name":   {file(keyFile, []byte("PRIVATE+KEY+x+"+strings.Split(s.VerifierKey(), "+")[1]+"+AQ==")), "not a note signer key"},
		"other files and no key":  {func(f string) error { return errors.Join(remove(keyFile)(f), file("VERSION", nil)(f)) }, "it has VERSION"},
		"a folder instead of file": {func(f string) error {
			return errors.Join(remove(relative)(f), os.Mkdir(filepath.Join(f, relative), 0o700))
		}, "read checkpoint of " + origin},
	} {
		t.Run(name, func(t *testing.T) {
			_, copied := reopenClosed(t, folder, l.key)
			if err := test.damage(copied); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Config{Folder: copied, Logs: []string{l.key}})
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), copied) {
				t.Errorf("%v does not have %q and the folder", err, test.says)
			}
		})
	}
}

// reopenClosed is reopen, without a server that has the lock.
func reopenClosed(t *testing.T, folder string, keys ...string) (verifier, copied string) {
	t.Helper()
	s, copied := reopen(t, folder, keys...)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return s.VerifierKey(), copied
}

// TestNoByteOfACheckpointChangesUnnoticed: a start either refuses the file, or knows the same tree.
func TestNoByteOfACheckpointChangesUnnoticed(t *testing.T) {
	l := newLog(t, origin).grow(9, "a")
	s := open(t, t.TempDir(), l.key)
	want(t, serve(t, s), formatRequest(0, nil, l.checkpoint(9, "extension\n")), http.StatusOK, "")
	path := s.folder.logPath(origin)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		tree, err := s.folder.load(origin, s.key.signer.Verifier())
		if err != nil && !errors.Is(err, ErrDamaged) || err == nil && tree != s.logs[origin].last {
			t.Fatalf("byte %d: %v, %v", i, tree, err)
		}
		if err != nil {
			refused++
		}
	}
	if refused < len(good)/2 {
		t.Errorf("%d of %d refused", refused, len(good))
	}
}

// TestADamagedCheckpointIsReplacedByAPublishedOne: the way out that the error names.
func TestADamagedCheckpointIsReplacedByAPublishedOne(t *testing.T) {
	l := newLog(t, origin).grow(9, "a")
	folder := t.TempDir()
	s := open(t, folder, l.key)
	signed := l.checkpoint(9)
	line, err := client(t, s.VerifierKey(), serve(t, s)).Cosign(t.Context(), 0, nil, signed)
	if err != nil {
		t.Fatal(err)
	}
	path := s.folder.logPath(origin)
	if err := errors.Join(s.Close(), os.WriteFile(path, append(signed, line...), 0o600)); err != nil {
		t.Fatal(err)
	}
	want(t, serve(t, open(t, folder, l.key)), l.body(3, 4), http.StatusConflict, "9\n")
}

func TestAKeyThatOthersMayReadIsRefused(t *testing.T) {
	l := newLog(t, origin)
	folder := t.TempDir()
	s := open(t, folder, l.key)
	if err := errors.Join(s.Close(), os.Chmod(filepath.Join(folder, keyFile), 0o640)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Folder: folder, Logs: []string{l.key}}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("got %v", err)
	}
}

// TestALostCheckpointIsNoticed: with it, the witness would forget what it has cosigned.
func TestALostCheckpointIsNoticed(t *testing.T) {
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.close() }()
	k, _, err := f.key("witness.example/w")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.save("a.example/log", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(f.logPath("a.example/log")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.load("a.example/log", k.signer.Verifier()); !errors.Is(err, ErrDamaged) {
		t.Errorf("a lost checkpoint: %v", err)
	}
	if tree, err := f.load("b.example/log", k.signer.Verifier()); err != nil || tree.N != 0 {
		t.Errorf("a log that was never cosigned: %v, %v", tree, err)
	}
}
