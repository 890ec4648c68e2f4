// Package blob stores byte streams under keys: files and contents too large for a journal event or a document.
//
// Package disk keeps them in a folder, package s3 in any S3 server, and package blobtest holds both to what Store
// promises.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Errors that a Store wraps. A failure of the caller's own reader is none of them; it is returned wrapped as it is.
var (
	// ErrNotFound says that no blob has this key.
	ErrNotFound = errors.New("blob not found")
	// ErrUnavailable says that the store failed, is full or did not answer in time. Whether a Put or a Delete that
	// ended so took effect is unknown; both may be repeated.
	ErrUnavailable = errors.New("blob store unavailable")
	// ErrInvalid says that an argument (key, prefix, size, range) is not one that any store would take.
	ErrInvalid = errors.New("invalid blob argument")
	// ErrSize says that the reader given to Put held fewer or more bytes than announced.
	ErrSize = errors.New("blob size differs from the announced one")
)

// MaxKeyBytes bounds a key, so that it fits into one file name and any S3 server's limit.
const MaxKeyBytes = 240

// Info describes a stored blob.
type Info struct {
	Key      string
	Size     int64     // bytes of the whole blob, also where a range was asked for
	Modified time.Time // when it was put, by the store's clock
}

// Store keeps blobs. All methods may be called concurrently and return when ctx ends, then with its error.
//
// A key is made of slash-separated segments of [A-Za-z0-9._-], see ValidateKey. A key must not be a folder of another
// one ("a" beside "a/b"), which some S3 servers cannot hold.
type Store interface {
	// Put stores what r holds under key, replacing what was there, and returns once that is durable. size is the
	// number of bytes, or -1 where it is unknown. Where r fails, holds another number of bytes (ErrSize) or ctx
	// ends, nothing becomes visible and what was there before stays. A Read of r that blocks blocks Put.
	Put(ctx context.Context, key string, r io.Reader, size int64) (Info, error)

	// Get opens the blob from offset, for length bytes or, where that is -1, to its end. What lies past the end is
	// left out, so that an offset at or past it reads nothing. The caller closes the reader, which ctx ends too. A
	// blob that is replaced or deleted meanwhile is read whole or with an error, never mixed.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, Info, error)

	// Delete removes the blob for good; one that is not there is no error.
	Delete(ctx context.Context, key string) error

	// Sweep calls visit, one call at a time and in no particular order, for every blob whose key begins with prefix
	// and that was put before olderThan. It stops at visit's first error and returns that. visit may delete the
	// blob; blobs put or deleted meanwhile may be visited or not.
	Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(Info) error) error
}

// ValidateKey refuses, with ErrInvalid, what is no key: segments of [A-Za-z0-9._-] with single slashes between them,
// none of them "." or "..", MaxKeyBytes at most.
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

// ValidatePrefix refuses, with ErrInvalid, what no key can begin with. The empty prefix is every key's.
func ValidatePrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	if err := ValidateKey(strings.TrimSuffix(prefix, "/")); err != nil {
		return fmt.Errorf("prefix: %w", err)
	}
	return nil
}

// ValidateRange refuses, with ErrInvalid, an offset below 0 and a length below -1.
func ValidateRange(offset, length int64) error {
	if offset < 0 || length < -1 {
		return fmt.Errorf("%w: range of %d bytes from %d", ErrInvalid, length, offset)
	}
	return nil
}

// ValidateSize refuses, with ErrInvalid, a size below -1.
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
