package datafolder

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"quire.dev/services/standalone/internal/durable"
)

// ErrNotEmpty: the folder to restore to has files.
var ErrNotEmpty = errors.New("the folder to restore to is not empty")

// Files returns the files of the folder at path that are worth a backup, by name.
func Files(path string) (map[string][]byte, error) {
	return readFiles(path, versionFile, secretFile, adminFile, keyFile)
}

// readFiles returns the files that exist, by name. With an error it returns the files read so far.
func readFiles(path string, names ...string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // a setting has its value
		}
		if err != nil {
			return files, fmt.Errorf("read the data folder: %w", err)
		}
		files[name] = data
	}
	return files, nil
}

// Restore creates the folder at path, which must be missing or empty, with files as Files returned them. Without VERSION among them
// the folder gets this secret, and the names of the journals. fill writes the rest. Only after it the folder can be used: a restore
// that was interrupted leaves a folder that no start accepts.
func Restore(path string, files map[string][]byte, secret []byte, streams []string, fill func(*Folder) error) (err error) {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("restore to %s: %w", path, err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("%w: %s has %s", ErrNotEmpty, path, entries[0].Name())
	}
	if path, err = filepath.Abs(path); err != nil {
		return fmt.Errorf("restore to a folder: %w", err)
	}
	if files[versionFile] == nil {
		if len(secret) == 0 {
			return errors.New("the backup has no secret: set QUIRE_SECRET to the installation's secret")
		}
		if files = maps.Clone(files); files == nil {
			files = map[string][]byte{}
		}
		streams = slices.Sorted(slices.Values(streams))
		files[versionFile] = version{format: Format, secret: fingerprint(secret), streams: streams, welcome: true}.encode()
	}
	f := &Folder{Path: path}
	for _, part := range parts() {
		if err := os.MkdirAll(filepath.Join(path, part), 0o700); err != nil {
			return fmt.Errorf("restore to %s: %w", path, err)
		}
	}
	if err := os.Chmod(path, 0o700); err != nil { //nolint:gosec // a folder
		return fmt.Errorf("restore to %s: %w", path, err)
	}
	if err := f.acquire(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.lock.Close()) }()
	if err := fill(f); err != nil {
		return err
	}
	if err := f.Stopped(); err != nil {
		return err
	}
	for _, name := range []string{secretFile, adminFile, keyFile, versionFile} {
		if data := files[name]; data != nil {
			if err := durable.Write(filepath.Join(path, name), data); err != nil {
				return err
			}
		}
	}
	return nil
}
