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

// Errors that a Store wraps. An error of the caller's own reader is returned wrapped too, and is none of these.
var (
	// ErrNotFound: no blob has this key.
	ErrNotFound = errors.New("blob not found")
	// ErrExists: there is a blob with this key.
	ErrExists = errors.New("blob exists")
	// ErrUnavailable: the store failed, is full or did not answer in time. A Put or Delete may have taken effect, and
	// may be repeated.
	ErrUnavailable = errors.New("blob store unavailable")
	// ErrInvalid: an argument (key, prefix, size, range) is one that no store takes.
	ErrInvalid = errors.New("invalid blob argument")
	// ErrSize: the reader given to Put held fewer or more bytes than announced.
	ErrSize = errors.New("blob size differs from the announced one")
)

// MaxKeyBytes bounds a key, so that it fits into one file name and any S3 server's limit.
const MaxKeyBytes = 240

// Info describes a stored blob.
type Info struct {
	Key      string
	Size     int64     // bytes of the whole blob, even if a range was asked for
	Modified time.Time // when it was put, by the store's clock
}

// Store keeps blobs. Its methods are safe for concurrent use. If ctx ends they return its error.
//
// A key is made of slash-separated segments of [A-Za-z0-9._-], see ValidateKey. A key must not be a folder of another
// one ("a" beside "a/b"), which some S3 servers cannot hold.
type Store interface {
	// Put stores the bytes of r under key, replacing an earlier blob, and returns once that is durable. size is the
	// number of bytes, or -1 if it is unknown. If r fails or holds another number of bytes (ErrSize), or ctx ends,
	// nothing becomes visible and an earlier blob stays. A Read of r that blocks blocks Put.
	Put(ctx context.Context, key string, r io.Reader, size int64) (Info, error)

	// Create stores content under key and returns once that is durable. If there is a blob with this key, it stays, and the
	// error is ErrExists. Of several creations at a time one succeeds.
	Create(ctx context.Context, key string, content []byte) error

	// Move gives the blob at from the key to, where it replaces an earlier one and counts as put now. If there is none, the
	// error is ErrNotFound. A Move that fails or is cut short leaves the blob at either key, or at both, and may be repeated.
	Move(ctx context.Context, from, to string) error

	// Get opens the blob from offset, for length bytes, or to its end if length is -1. A range past the end is cut, so
	// that an offset at or past the end reads nothing. The caller closes the reader, which ctx ends too. A blob that is
	// replaced or deleted meanwhile is read whole or with an error, never mixed.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error)

	// Delete removes the blob for good. It is no error if there is none.
	Delete(ctx context.Context, key string) error

	// Sweep calls visit, one call at a time and in no particular order, for every blob whose key begins with prefix
	// and that was put before olderThan. It stops at visit's first error and returns it. visit may delete or move the blob.
	// Blobs put or deleted meanwhile may be visited or not. The first two segments of prefix that end with a slash are a
	// folder: blobs elsewhere cost nothing.
	Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(Info) error) error
}

// Buffering is implemented by stores whose Put holds bytes in memory that it has read and not stored yet.
type Buffering interface {
	// PutBytes is how many it holds at most. It takes the memory as the bytes come.
	PutBytes() int64
}

// Hashing is implemented by stores that can hash a blob while they store it, which takes less time than one after the other.
type Hashing interface {
	// PutHashed is Put. It also writes the bytes to sum, in their order. Without an error sum has them all. Nothing is written to
	// it after the return.
	PutHashed(ctx context.Context, key string, r io.Reader, size int64, sum hash.Hash) (Info, error)
}

// PutHashed puts a blob by store.Put, or by the PutHashed of a store that has one, and writes its bytes to sum.
func PutHashed(ctx context.Context, store Store, key string, r io.Reader, size int64, sum hash.Hash) (Info, error) {
	if s, ok := store.(Hashing); ok {
		return s.PutHashed(ctx, key, r, size, sum)
	}
	return store.Put(ctx, key, io.TeeReader(r, sum), size)
}

// Filed is implemented by the readers of stores whose blobs are files of this machine: the kernel can send those without a copy
// in this process.
type Filed interface {
	// File is the open file, and the part of it that the reader was asked for. It is the reader's: Close closes it.
	File() (file *os.File, offset, length int64)
}

// ValidateKey is ErrInvalid unless key has segments of [A-Za-z0-9._-] with single slashes between them, none of them
// "." or "..", and MaxKeyBytes at most.
func ValidateKey(key string) error {
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("%w: key of %d bytes, at most %d are allowed", ErrInvalid, len(key), MaxKeyBytes)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." || !plain(segment) {
			return fmt.Errorf("%w: key %q has the segment %q", ErrInvalid, key, segment)
		}
	}
	return nil
}

// ValidatePrefix is ErrInvalid if no key can begin with prefix. Every key begins with the empty one.
func ValidatePrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := ValidateKey(strings.TrimSuffix(prefix, "/")); err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	return nil
}

// ValidateRange is ErrInvalid if offset is below 0 or length is below -1.
func ValidateRange(offset, length int64) error {
	if offset < 0 || length < -1 {
		return fmt.Errorf("%w: range of %d bytes from %d", ErrInvalid, length, offset)
	}
	return nil
}

// ValidateSize is ErrInvalid if size is below -1.
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
