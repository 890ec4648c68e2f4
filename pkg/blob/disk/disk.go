// Package disk keeps blobs as files in a folder of one process, fsynced before a Put or a Delete returns.
//
//	<folder>/lock                 held while the store is open
//	<folder>/temp/                files that are being written
//	<folder>/keys/paste/0/~3f/    blobs whose keys begin with paste/0/, by the hash of the key; see layout.go
package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/internal/source"
)

// Store is a blob.Store in a folder. Only one process may have the folder open.
type Store struct {
	keys   string
	temp   string
	lock   *os.File
	pieces *pieces
}

// Open creates the folder if it is missing, locks it and removes files that a crash left half-written. It fails if the folder
// is already open, here or in another process. The caller closes the store.
func Open(folder string) (*Store, error) {
	store := &Store{
		keys:   filepath.Join(folder, "keys"),
		temp:   filepath.Join(folder, "temp"),
		pieces: newPieces(),
	}
	if err := makeFolder(folder); err != nil {
		return nil, fmt.Errorf("open blob folder: %w", err)
	}
	var err error
	if store.lock, err = takeLock(filepath.Join(folder, "lock")); err != nil {
		return nil, fmt.Errorf("open blob folder %s: %w", folder, err)
	}
	if err := store.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("open blob folder %s: %w", folder, err), store.Close())
	}
	return store, nil
}

// Reading returns a store that only reads the folder, whichever process has it open. Only its Get and Sweep may be used. It needs no
// close.
func Reading(folder string) *Store { return &Store{keys: filepath.Join(folder, "keys")} }

// Close releases the folder. Readers that are still open stay usable; the store is not.
func (s *Store) Close() error { return s.lock.Close() }

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	return s.PutHashed(ctx, key, r, size, nil)
}

// PutHashed implements blob.Hashing.
func (s *Store) PutHashed(ctx context.Context, key string, r io.Reader, size int64, sum hash.Hash) (blob.Info, error) {
	if err := errors.Join(blob.ValidateKey(key), blob.ValidateSize(size)); err != nil {
		return blob.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return blob.Info{}, fmt.Errorf("put blob %s: %w", key, err)
	}
	return s.store(ctx, &content{key: key, from: source.New(ctx, r, size), sum: sum}, os.Rename)
}

// Create implements blob.Store.
func (s *Store) Create(ctx context.Context, key string, data []byte) error {
	if err := blob.ValidateKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("create blob %s: %w", key, err)
	}
	from := source.New(ctx, bytes.NewReader(data), int64(len(data)))
	_, err := s.store(ctx, &content{key: key, from: from}, func(temp, path string) error {
		// Unlike a rename, a link never replaces a file.
		if err := os.Link(temp, path); err != nil {
			return err
		}
		return os.Remove(temp)
	})
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create blob %s: %w", key, blob.ErrExists)
	}
	return err
}

// content is the input of a new blob.
type content struct {
	key  string
	from *source.Reader
	sum  io.Writer // receives the bytes too; may be nil
}

// store writes a temporary file and calls place to link it at the key's path.
func (s *Store) store(ctx context.Context, c *content, place func(temp, path string) error) (blob.Info, error) {
	file, err := os.CreateTemp(s.temp, "put-*")
	if err != nil {
		return blob.Info{}, unavailable("put", c.key, err)
	}
	info, err := s.write(ctx, file, c)
	if err == nil {
		if err = s.enter(c.key, func(path string) error { return place(file.Name(), path) }); err == nil {
			return info, nil
		}
		err = unavailable("put", c.key, err)
	}
	// The first error matters. The next Open removes a file that is left behind.
	_ = file.Close()
	_ = os.Remove(file.Name())
	return blob.Info{}, err
}

// Move implements blob.Store.
func (s *Store) Move(ctx context.Context, from, to string) error {
	if err := errors.Join(blob.ValidateKey(from), blob.ValidateKey(to)); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("move blob %s: %w", from, err)
	}
	old, now := s.path(from), time.Now()
	err := os.Chtimes(old, now, now)
	if err == nil {
		err = s.enter(to, func(path string) error { return os.Rename(old, path) })
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move blob %s: %w", from, blob.ErrNotFound)
	}
	if err == nil {
		err = syncFolder(filepath.Dir(old))
	}
	if err != nil {
		return unavailable("move", from, err)
	}
	return nil
}

// enter creates the folder of a key if needed, calls place to create the file, and returns once both are durable.
func (s *Store) enter(key string, place func(path string) error) error {
	path := s.path(key)
	folder := filepath.Dir(path)
	err := place(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeFolder(folder); err != nil {
			return err
		}
		err = place(path)
	}
	if err != nil {
		return err
	}
	return syncFolder(folder)
}

// write fills the file, syncs and closes it.
func (s *Store) write(ctx context.Context, file *os.File, c *content) (blob.Info, error) {
	key := c.key
	err := s.pieces.copyTo(file, c.from, c.sum, func() error { return makeFolder(filepath.Dir(s.path(key))) })
	if err != nil {
		if c.from.Err() != nil {
			return blob.Info{}, fmt.Errorf("put blob %s: %w", key, c.from.Err())
		}
		return blob.Info{}, unavailable("put", key, err)
	}
	stat, err := file.Stat()
	if err != nil {
		return blob.Info{}, unavailable("put", key, err)
	}
	if err := file.Close(); err != nil {
		return blob.Info{}, unavailable("put", key, err)
	}
	if err := ctx.Err(); err != nil {
		return blob.Info{}, fmt.Errorf("put blob %s: %w", key, err)
	}
	return blob.Info{Key: key, Size: stat.Size(), Modified: stat.ModTime().UTC()}, nil
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	if err := errors.Join(blob.ValidateKey(key), blob.ValidateRange(offset, length)); err != nil {
		return nil, blob.Info{}, err
	}
	if err := ctx.Err(); err != nil {
		return nil, blob.Info{}, fmt.Errorf("get blob %s: %w", key, err)
	}
	file, err := os.Open(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.Info{}, fmt.Errorf("get blob %s: %w", key, blob.ErrNotFound)
	}
	if err != nil {
		return nil, blob.Info{}, unavailable("get", key, err)
	}
	stat, err := file.Stat()
	if err != nil {
		return nil, blob.Info{}, errors.Join(unavailable("get", key, err), file.Close())
	}
	rest := max(0, stat.Size()-offset)
	if length >= 0 {
		rest = min(rest, length)
	}
	r := &reader{ctx: ctx, key: key, file: file, section: io.NewSectionReader(file, offset, rest)}
	return r, blob.Info{Key: key, Size: stat.Size(), Modified: stat.ModTime().UTC()}, nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.ValidateKey(key); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete blob %s: %w", key, err)
	}
	path := s.path(key)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable("delete", key, err)
	}
	// Even without a file: an earlier delete may have removed it and failed at this step.
	if err := syncFolder(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable("delete", key, err)
	}
	return nil
}

func (s *Store) prepare() error {
	if err := os.RemoveAll(s.temp); err != nil {
		return err
	}
	return errors.Join(makeFolder(s.temp), makeFolder(s.keys))
}

// makeFolder creates a folder and its parents durably. Existing ones stay untouched.
func makeFolder(path string) error {
	if stat, err := os.Stat(path); err == nil {
		if !stat.IsDir() {
			return fmt.Errorf("%s is not a folder", path)
		}
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeFolder(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func takeLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("in use by another process: %w", err), file.Close())
	}
	return file, nil
}

func unavailable(what, key string, err error) error {
	return fmt.Errorf("%s blob %s: %w: %w", what, key, blob.ErrUnavailable, err)
}

// reader reads a range of a blob until its ctx ends. A replaced or deleted blob stays readable and whole, because both only
// change the folder.
type reader struct {
	ctx     context.Context
	key     string
	file    *os.File
	section *io.SectionReader
}

// File implements blob.Filed.
func (r *reader) File() (file *os.File, offset, length int64) {
	_, offset, length = r.section.Outer()
	return r.file, offset, length
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, fmt.Errorf("read blob %s: %w", r.key, err)
	}
	n, err := r.section.Read(p)
	if err != nil && err != io.EOF {
		return n, unavailable("read", r.key, err)
	}
	return n, err
}

// Close implements io.Closer.
func (r *reader) Close() error { return r.file.Close() }
