// Package durable changes files so that a crash leaves either the old state or the new one.
package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Write replaces the content of the file at path, or creates the file. Once it returns nil, the content is on the disk. It
// writes to a temporary file with the suffix ".tmp", which only a crash leaves behind.
func Write(path string, data []byte) error {
	temporary := path + ".tmp"
	err := write(temporary, data)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // the next Write would replace it
		return fmt.Errorf("write %s: %w", path, err)
	}
	return SyncFolder(filepath.Dir(path))
}

func write(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// SyncFolder syncs the folder's entries to the disk.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err == nil {
		err = errors.Join(folder.Sync(), folder.Close())
	}
	if err != nil {
		return fmt.Errorf("sync folder %s: %w", path, err)
	}
	return nil
}
