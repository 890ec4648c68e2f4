package disk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quire.dev/pkg/blob"
)

// The first folderSegments segments of a key, but never its last one, are folders. Each holds folders named "~" and the hash of
// the key, which bounds the files per folder. The file's name is the rest of the key with "~" for "/". No key contains "~", so
// two keys never share a path.
const (
	folderSegments = 2
	hashMark       = "~"
	batch          = 256 // directory entries read at a time
)

func (s *Store) path(key string) string {
	segments := strings.Split(key, "/")
	folders := min(folderSegments, len(segments)-1)
	sum := sha256.Sum256([]byte(key))
	parts := append([]string{s.keys}, segments[:folders]...)
	return filepath.Join(append(parts, hashMark+hex.EncodeToString(sum[:1]), strings.Join(segments[folders:], "~"))...)
}

// Sweep implements blob.Store.
func (s *Store) Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(blob.Info) error) error {
	if err := blob.ValidatePrefix(prefix); err != nil {
		return err
	}
	if _, err := os.Stat(s.keys); err != nil {
		return unavailable("sweep", prefix, err)
	}
	segments := strings.Split(prefix, "/")
	within := segments[:min(folderSegments, len(segments)-1)]
	return s.sweepFolder(ctx, within, func(info blob.Info) error {
		if !strings.HasPrefix(info.Key, prefix) || !info.Modified.Before(olderThan) {
			return nil
		}
		return visit(info)
	}, prefix)
}

// sweepFolder visits the blobs whose keys begin with these segments. It skips folders that can hold no key with the prefix.
func (s *Store) sweepFolder(ctx context.Context, segments []string, visit func(blob.Info) error, prefix string) error {
	path := filepath.Join(append([]string{s.keys}, segments...)...)
	return eachEntry(ctx, path, func(entry fs.DirEntry) error {
		name := entry.Name()
		switch {
		case !entry.IsDir():
			return nil // not a file of this package
		case strings.HasPrefix(name, hashMark):
			return s.sweepFiles(ctx, segments, filepath.Join(path, name), visit)
		case len(segments) < folderSegments:
			inner := append(slices.Clone(segments), name)
			key := strings.Join(inner, "/") + "/"
			if strings.HasPrefix(key, prefix) || strings.HasPrefix(prefix, key) {
				return s.sweepFolder(ctx, inner, visit, prefix)
			}
		}
		return nil
	})
}

func (s *Store) sweepFiles(ctx context.Context, segments []string, path string, visit func(blob.Info) error) error {
	return eachEntry(ctx, path, func(entry fs.DirEntry) error {
		key := strings.Join(append(slices.Clone(segments), strings.Split(entry.Name(), "~")...), "/")
		if blob.ValidateKey(key) != nil {
			return nil // not a file of this package
		}
		stat, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return unavailable("sweep", key, err)
		}
		return visit(blob.Info{Key: key, Size: stat.Size(), Modified: stat.ModTime().UTC()})
	})
}

// eachEntry calls each with the entries of a folder. A missing folder has none.
func eachEntry(ctx context.Context, path string, each func(fs.DirEntry) error) error {
	folder, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unavailable("sweep", path, err)
	}
	defer func() { _ = folder.Close() }() // read only
	for {
		entries, err := folder.ReadDir(batch)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return unavailable("sweep", path, err)
		}
		for _, entry := range entries {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("sweep blobs: %w", err)
			}
			if err := each(entry); err != nil {
				return err
			}
		}
	}
}
