package profile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ring is a key ring in memory, which refuses everything while broken is set.
type ring struct {
	secrets map[string]string
	broken  error
}

func (r *ring) Set(user, secret string) error {
	if r.broken == nil {
		r.secrets[user] = secret
	}
	return r.broken
}

func (r *ring) Get(user string) (string, error) { return r.secrets[user], r.broken }

func (r *ring) Delete(user string) error {
	if r.broken == nil {
		delete(r.secrets, user)
	}
	return r.broken
}

const key = "qk_secret"

func content(t *testing.T, s *Store) string {
	t.Helper()
	data, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWithoutAKeyRingTheKeyIsInAFileForTheUserAlone(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Ring{"none": nil, "broken": &ring{broken: errors.New("locked")}} {
		t.Run(name, func(t *testing.T) {
			s := Open(filepath.Join(t.TempDir(), "quire"), r)
			if _, _, err := s.Get(""); !errors.Is(err, ErrNone) {
				t.Fatalf("before: %v", err)
			}
			if where, err := s.Put(Default, "https://a.example", key, false); err != nil || where != InFile {
				t.Fatalf("%q %v", where, err)
			}
			for path, want := range map[string]os.FileMode{s.Path(): 0o600, filepath.Dir(s.Path()): 0o700} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
					t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, want)
				}
			}
			if p, name, err := s.Get(""); err != nil || name != Default || p.APIKey != key || p.URL != "https://a.example" {
				t.Errorf("%+v %q %v", p, name, err)
			}
		})
	}
}

func TestWithAKeyRingTheFileHasNoKey(t *testing.T) {
	t.Parallel()
	r := &ring{secrets: map[string]string{}}
	s := Open(t.TempDir(), r)
	if where, err := s.Put("work", "https://a.example", key, false); err != nil || where != InKeyring {
		t.Fatalf("%q %v", where, err)
	}
	if strings.Contains(content(t, s), key) {
		t.Error("the key is in the file")
	}
	if p, _, err := s.Get("work"); err != nil || p.APIKey != key {
		t.Errorf("%+v %v", p, err)
	}
	r.broken = errors.New("locked")
	if _, _, err := s.Get("work"); err == nil || !strings.Contains(err.Error(), "work") {
		t.Errorf("a key ring that is locked: %v", err)
	}
	r.broken = nil
	// A log-in that wants the file takes the key out of the key ring.
	if where, err := s.Put("work", "https://a.example", key, true); err != nil || where != InFile || len(r.secrets) != 0 {
		t.Errorf("%q %v, %v in the key ring", where, err, r.secrets)
	}
}

func TestDeletedProfilesLeaveNothing(t *testing.T) {
	t.Parallel()
	r := &ring{secrets: map[string]string{}}
	s := Open(t.TempDir(), r)
	for _, name := range []string{"a", "b"} {
		if _, err := s.Put(name, "https://"+name+".example", key, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Delete("b"); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.secrets["b"]; ok {
		t.Error("the key stays in the key ring")
	}
	if all, current, err := s.List(); err != nil || len(all) != 1 || current != "a" {
		t.Errorf("%v %q %v", all, current, err)
	}
	for _, err := range []error{s.Delete("b"), s.Use("b")} {
		if !errors.Is(err, ErrNone) {
			t.Error(err)
		}
	}
}

func TestABrokenFileIsNamed(t *testing.T) {
	t.Parallel()
	s := Open(t.TempDir(), nil)
	if err := os.WriteFile(s.Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Get(""); err == nil || !strings.Contains(err.Error(), s.Path()) {
		t.Error(err)
	}
	if _, err := s.Put("x", "https://a.example", key, false); err == nil {
		t.Error("a file that can't be read is overwritten")
	}
}
