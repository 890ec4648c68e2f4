// Package profile keeps which service a user speaks to, with which API key, and which receipts came of that.
package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Default is the name of the profile of a user who names none.
const Default = "default"

// Where a key is kept.
const (
	InKeyring = "keyring"
	InFile    = "file"
)

// ErrNone: there is no such profile.
var ErrNone = errors.New("there is no such profile")

// Profile is a service and the key for it.
type Profile struct {
	URL      string `json:"url"`
	KeyStore string `json:"keyStore"`         // InKeyring or InFile
	APIKey   string `json:"apiKey,omitempty"` // with InFile
}

// Store is the file of the profiles, and the system's key ring.
type Store struct {
	path string
	ring Ring
}

// Ring keeps secrets by the name of their user. The system's key ring is one.
type Ring interface {
	Set(user, secret string) error
	Get(user string) (string, error)
	Delete(user string) error
}

// Open is the store in a folder, which is made when something is kept. ring is nil where the system has no key ring.
func Open(folder string, ring Ring) *Store {
	return &Store{path: filepath.Join(folder, "profiles.json"), ring: ring}
}

// file is the content of the store's file.
type file struct {
	Current  string             `json:"current"`
	Profiles map[string]Profile `json:"profiles"`
}

// Path is the file of the profiles.
func (s *Store) Path() string { return s.path }

// Get is a profile with its key, and its name; the current one where name is empty. The error is ErrNone where there is no
// such profile.
func (s *Store) Get(name string) (Profile, string, error) {
	f, err := s.read()
	if err != nil {
		return Profile{}, "", err
	}
	if name == "" {
		name = f.Current
	}
	p, ok := f.Profiles[name]
	if !ok {
		return Profile{}, name, ErrNone
	}
	if p.KeyStore == InKeyring {
		if s.ring == nil {
			return p, name, fmt.Errorf("the API key of the profile %q is in the system's key ring, which can't be reached here", name)
		}
		if p.APIKey, err = s.ring.Get(name); err != nil {
			return p, name, fmt.Errorf("read the API key of the profile %q from the system's key ring: %w", name, err)
		}
	}
	return p, name, nil
}

// Put keeps a key for a service under a name, and makes that the current profile. Where the system's key ring can't be used,
// or plain is true, the key is in the file, which only its user may read. It gives where the key is.
func (s *Store) Put(name, url, key string, plain bool) (string, error) {
	f, err := s.read()
	if err != nil {
		return "", err
	}
	before := f.Profiles[name]
	p := Profile{URL: url, KeyStore: InFile, APIKey: key}
	if !plain && s.ring != nil && s.ring.Set(name, key) == nil {
		p.KeyStore, p.APIKey = InKeyring, ""
	}
	f.Profiles[name], f.Current = p, name
	if err := s.write(f); err != nil {
		return "", err
	}
	if before.KeyStore == InKeyring && p.KeyStore == InFile && s.ring != nil {
		return p.KeyStore, s.ring.Delete(name)
	}
	return p.KeyStore, nil
}

// Use makes a profile the current one. The error is ErrNone where there is no such profile.
func (s *Store) Use(name string) error {
	f, err := s.read()
	if err != nil {
		return err
	}
	if _, ok := f.Profiles[name]; !ok {
		return ErrNone
	}
	f.Current = name
	return s.write(f)
}

// Delete forgets a profile and its key. The current one is then the first of the others.
func (s *Store) Delete(name string) error {
	f, err := s.read()
	if err != nil {
		return err
	}
	p, ok := f.Profiles[name]
	if !ok {
		return ErrNone
	}
	if p.KeyStore == InKeyring && s.ring != nil {
		if err := s.ring.Delete(name); err != nil {
			return fmt.Errorf("delete the API key from the system's key ring: %w", err)
		}
	}
	delete(f.Profiles, name)
	if f.Current == name {
		f.Current = ""
		if names := slices.Sorted(maps.Keys(f.Profiles)); len(names) > 0 {
			f.Current = names[0]
		}
	}
	return s.write(f)
}

// List gives all profiles by name, without keys, and the name of the current one.
func (s *Store) List() (map[string]Profile, string, error) {
	f, err := s.read()
	if err != nil {
		return nil, "", err
	}
	for name, p := range f.Profiles {
		p.APIKey = ""
		f.Profiles[name] = p
	}
	return f.Profiles, f.Current, nil
}

func (s *Store) read() (file, error) {
	f := file{Profiles: map[string]Profile{}}
	data, err := os.ReadFile(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f, nil
	case err != nil:
		return f, fmt.Errorf("read the profiles: %w", err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("read the profiles in %s: %w", s.path, err)
	}
	if f.Profiles == nil {
		f.Profiles = map[string]Profile{}
	}
	return f, nil
}

const (
	onlyUserFile   = 0o600
	onlyUserFolder = 0o700
)

func (s *Store) write(f file) error {
	if err := replace(s.path, f); err != nil {
		return fmt.Errorf("write the profiles: %w", err)
	}
	return nil
}

// replace writes a file of JSON at once: another process sees the old one or the new one. Only the user may read it.
func replace(path string, content any) error {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetIndent("", "  ")
	if err := enc.Encode(content); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, onlyUserFolder); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*") // with the mode 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(data.Bytes())
	err = errors.Join(err, temporary.Chmod(onlyUserFile), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temporary.Name())
	}
	return err
}
