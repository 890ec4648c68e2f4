// Package source reads the bytes of a Put, and separates errors of the caller's reader from errors of the store.
package source

import (
	"context"
	"fmt"
	"io"

	"quire.dev/pkg/blob"
)

// maxEmptyReads bounds successive reads that return neither bytes nor an error.
const maxEmptyReads = 100

// Reader wraps another reader. It ends with ctx and returns io.EOF only after exactly the announced size. Not safe for
// concurrent use.
type Reader struct {
	ctx  context.Context
	r    io.Reader
	size int64
	read int64
	err  error
}

// New returns a Reader of r, which must have size bytes, or any number if size is -1.
func New(ctx context.Context, r io.Reader, size int64) *Reader {
	return &Reader{ctx: ctx, r: r, size: size}
}

// Err is the error that stopped reading, nil before that and after a complete read.
func (s *Reader) Err() error { return s.err }

// Size returns the number of bytes read so far.
func (s *Reader) Size() int64 { return s.read }

// Read implements io.Reader.
func (s *Reader) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	for range maxEmptyReads {
		if err := s.ctx.Err(); err != nil {
			return 0, s.fail(err)
		}
		n, err := s.r.Read(p)
		s.read += int64(n)
		if s.size >= 0 && s.read > s.size {
			return 0, s.fail(fmt.Errorf("%w: more than %d bytes", blob.ErrSize, s.size))
		}
		if err == io.EOF {
			return n, s.end()
		}
		if err != nil {
			return n, s.fail(fmt.Errorf("read the content to store: %w", err))
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, s.fail(fmt.Errorf("read the content to store: %w", io.ErrNoProgress))
}

func (s *Reader) end() error {
	if s.size >= 0 && s.read != s.size {
		return s.fail(fmt.Errorf("%w: %d of %d bytes", blob.ErrSize, s.read, s.size))
	}
	return io.EOF
}

func (s *Reader) fail(err error) error {
	s.err = err
	return err
}
