package contents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
)

// fileBody is the content of a blob in a file, or a part of it: an httpin.FileBody. Unless the blob was verified a moment
// ago, each piece is hashed before it is sent, and the last one is sent only if the hash matches, so that a client sees a
// damaged blob as a truncated answer.
type fileBody struct {
	io.Closer
	ctx   context.Context
	file  *os.File // at the first byte after piece
	piece io.LimitedReader
	left  int64 // bytes after piece

	sum     hash.Hash // nil: the blob was verified
	content *event.Content
	offset  int64 // of left in the file
	whole   *wholeBlobs
	info    blob.Info
}

// OpenBody opens a range of a content for an answer: length bytes from offset. The caller closes it. Before a part is sent,
// the whole blob is verified.
func (s *Store) OpenBody(c *endpoint.Call, content *event.Content, offset, length int64, part bool) (io.ReadCloser, error) {
	if content.GetBlob() == "" {
		return s.Open(s.ctx, content, offset, length)
	}
	if part {
		if err := s.Check(content, c.HungUp); err != nil {
			return nil, err
		}
	}
	r, info, err := s.blobs.Get(s.ctx, content.Blob, offset, length)
	if err != nil {
		return nil, endpoint.Unavailable(fmt.Errorf("open content: %w", err))
	}
	filed, ok := r.(blob.Filed)
	if !ok {
		return verifyHash(r, content, offset, length), nil
	}
	body, err := s.whole.body(s.ctx, filed, content, info)
	if err != nil {
		return nil, endpoint.Unavailable(fmt.Errorf("open content: %w", errors.Join(err, r.Close())))
	}
	body.Closer = r
	return body, nil
}

// body returns the requested range of r. Only the whole blob has a hash.
func (w *wholeBlobs) body(ctx context.Context, r blob.Filed, content *event.Content, info blob.Info) (*fileBody, error) {
	if info.Size != content.Length() {
		return nil, errDamaged
	}
	file, offset, length := r.File()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	b := &fileBody{ctx: ctx, file: file, left: length, content: content, offset: offset, whole: w, info: info}
	b.piece.R = file
	if length == info.Size && !w.remembers(content, info) {
		b.sum = sha256.New()
	}
	return b, nil
}

// Next implements httpin.FileBody.
func (b *fileBody) Next(limit int64) (*io.LimitedReader, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, err
	}
	if b.piece.N > 0 { // left by Read
		return &b.piece, nil
	}
	if b.left == 0 {
		return nil, io.EOF
	}
	n := min(limit, b.left)
	if b.sum != nil {
		if err := b.compare(n); err != nil {
			return nil, err
		}
	}
	b.left -= n
	b.offset += n
	b.piece.N = n
	return &b.piece, nil
}

// compare hashes the next n bytes, and compares the hash at the end. It holds memory only meanwhile, not while waiting for a
// client.
func (b *fileBody) compare(n int64) error {
	buffer := b.whole.buffers.Get().(*[]byte)
	defer b.whole.buffers.Put(buffer)
	for at := int64(0); at < n; {
		p := (*buffer)[:min(int64(len(*buffer)), n-at)]
		switch _, err := b.file.ReadAt(p, b.offset+at); {
		case errors.Is(err, io.EOF):
			return errDamaged
		case err != nil:
			return fmt.Errorf("read content: %w", err)
		}
		b.sum.Write(p)
		at += int64(len(p))
	}
	if n < b.left {
		return nil
	}
	if !bytes.Equal(b.sum.Sum(nil), b.content.Sha256) {
		return errDamaged
	}
	b.whole.remember(b.content, b.info)
	return nil
}

// Read implements io.Reader.
func (b *fileBody) Read(p []byte) (int, error) {
	if b.piece.N == 0 {
		if _, err := b.Next(int64(len(p))); err != nil {
			return 0, err
		}
	}
	n, err := b.piece.Read(p)
	if errors.Is(err, io.EOF) { // the file was truncated
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Check reads a blob to its end, unless it was verified a moment ago: see wholeBlobs. gone reports whether its reader has
// disconnected.
func (s *Store) Check(content *event.Content, gone func() bool) error {
	return s.whole.check(s.ctx, content, gone)
}
