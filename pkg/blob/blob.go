// Package blob stores byte streams under keys: files and contents too large for a journal event or a document.
//
// Package disk keeps them in a folder and package s3 in any S3 server. Package blobtest tests both against what Store
// promises.
package blob

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"time"
)

// Errors that a Store wraps. An error of the caller's reader is wrapped too, without any of these.
var (
	// ErrNotFound: no blob has this key.
	ErrNotFound = errors.New("blob not found")
	// ErrExists: there is a blob with this key.
	ErrExists = errors.New("blob exists")
	// ErrUnavailable: the store failed, is full or did not answer in time. A Put or Delete may have taken effect, and
	// may be repeated.
	ErrUnavailable = errors.New("blob store unavailable")
	// ErrInvalid: an invalid key, prefix, size or range.
	ErrInvalid = errors.New("invalid blob argument")
	// ErrSize: the reader given to Put held fewer or more bytes than announced.
	ErrSize = errors.New("blob size differs from the announced one")
	// ErrTooLarge: the blob has more bytes than Read was to read.
	ErrTooLarge = errors.New("blob is too large")
)

// MaxKeyBytes bounds a key, so that it fits into one file name and any S3 server's limit.
const MaxKeyBytes = 240

// Info describes a stored blob.
type Info struct {
	Key      string
	Size     int64     // bytes of the whole blob, even if a range was requested
	Modified time.Time // time of the put, by the store's clock
}

// Store keeps blobs. Its methods are safe for concurrent use. Once ctx ends they return its error.
//
// A key consists of slash-separated segments of [A-Za-z0-9._-], see ValidateKey. A key must not be a folder of another one ("a"
// beside "a/b"), which some S3 servers cannot hold.
type Store interface {
	// Put stores the bytes of r under key, replacing an earlier blob, and returns once they are durable. size is the number of
	// bytes, or -1 if it is unknown. If r fails or has another size (ErrSize), or ctx ends, nothing becomes visible and an
	// earlier blob stays. A Read of r that blocks blocks Put.
	Put(ctx context.Context, key string, r io.Reader, size int64) (Info, error)

	// Create stores content under key and returns once it is durable. An existing blob stays, with ErrExists. Of concurrent
	// calls, one succeeds.
	Create(ctx context.Context, key string, content []byte) error

	// Move renames a blob, replacing any blob at to; the result counts as put now. A missing blob is ErrNotFound. A failed Move
	// leaves the blob under either key, or both, and may be repeated.
	Move(ctx context.Context, from, to string) error

	// Get opens the blob at offset, for length bytes, or to its end if length is -1. A range is cut at the blob's end, so that
	// an offset at or past the end reads nothing. The caller closes the reader; the end of ctx stops it too. A blob that is
	// replaced or deleted meanwhile is read whole or with an error, never mixed.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error)

	// Delete removes the blob permanently. Deleting a missing blob is not an error.
	Delete(ctx context.Context, key string) error

	// Sweep calls visit, one call at a time and in no particular order, for every blob whose key begins with prefix and that
	// was put before olderThan. It stops at visit's first error and returns it. visit may delete or move the blob. Whether it
	// sees blobs put or deleted meanwhile is undefined. Sweep reads only the folder given by the first two segments of prefix
	// that end with a slash.
	Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(Info) error) error
}

// Read reads a whole blob of at most limit bytes into memory. A larger one is ErrTooLarge, and nothing of it is read.
func Read(ctx context.Context, store Store, key string, limit int64) (data []byte, err error) {
	reader, info, err := store.Get(ctx, key, 0, -1)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	if info.Size > limit {
		return nil, fmt.Errorf("read %s: %w: it has %d bytes, at most %d are expected", key, ErrTooLarge, info.Size, limit)
	}
	if data, err = io.ReadAll(reader); err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return data, nil
}

// Buffering is implemented by stores whose Put buffers bytes in memory.
type Buffering interface {
	// PutBytes bounds the buffer of one Put. It grows with the bytes received.
	PutBytes() int64
}

// Hashing is implemented by stores that can hash a blob while they store it, which is faster than hashing first.
type Hashing interface {
	// PutHashed is Put that also writes the bytes to sum, in order. On success sum has received them all. Nothing is written to
	// it after the return.
	PutHashed(ctx context.Context, key string, r io.Reader, size int64, sum hash.Hash) (Info, error)
}

// PutHashed stores a blob by the store's PutHashed, or else its Put, and writes the bytes to sum.
func PutHashed(ctx context.Context, store Store, key string, r io.Reader, size int64, sum hash.Hash) (Info, error) {
	if s, ok := store.(Hashing); ok {
		return s.PutHashed(ctx, key, r, size, sum)
	}
	return store.Put(ctx, key, io.TeeReader(r, sum), size)
}

// Filed is implemented by readers of local files, which the kernel can send without a copy in this process.
type Filed interface {
	// File returns the open file and the range of the reader. The reader owns the file: Close closes it.
	File() (file *os.File, offset, length int64)
}

// ValidateKey returns ErrInvalid unless key consists of segments of [A-Za-z0-9._-], separated by single slashes, none of them
// "." or "..", and has at most MaxKeyBytes bytes.
func ValidateKey(key string) error {
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("%w: key of %d bytes, at most %d allowed", ErrInvalid, len(key), MaxKeyBytes)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." || !plain(segment) {
			return fmt.Errorf("%w: key %q has the segment %q", ErrInvalid, key, segment)
		}
	}
	return nil
}

// ValidatePrefix returns ErrInvalid if no key can begin with prefix. The empty prefix is valid.
func ValidatePrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := ValidateKey(strings.TrimSuffix(prefix, "/")); err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	return nil
}

// ValidateRange returns ErrInvalid if offset is below 0 or length is below -1.
func ValidateRange(offset, length int64) error {
	if offset < 0 || length < -1 {
		return fmt.Errorf("%w: range of %d bytes from %d", ErrInvalid, length, offset)
	}
	return nil
}

// ValidateSize returns ErrInvalid if size is below -1.
func ValidateSize(size int64) error {
	if size < -1 {
		return fmt.Errorf("%w: size of %d bytes", ErrInvalid, size)
	}
	return nil
}

func plain(segment string) bool {
	for i := range len(segment) {
		c := segment[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
