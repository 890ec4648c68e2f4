// Package contents stores and reads the contents of documents, inline or as blobs. A damaged blob is never returned as an
// intact one.
package contents

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"strconv"
	"time"
	"unicode/utf8"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
)

// Store stores contents. Safe for concurrent use.
type Store struct {
	ctx        context.Context // for readers that outlive a call, and for deletions
	blobs      blob.Store
	partitions int // of every journal
	log        *slog.Logger
	whole      *wholeBlobs
}

// New returns a store of inline contents and blobs.
func New(ctx context.Context, blobs blob.Store, partitions int, log *slog.Logger) *Store {
	return &Store{ctx: ctx, blobs: blobs, partitions: partitions, log: log, whole: newWholeBlobs(blobs)}
}

const blobTimeout = 60 * time.Second

// NewKey returns a new key for an item's content: <domain>/<partition>/<item>/<random>.
func (s *Store) NewKey(d event.Domain, item string) string {
	var b [8]byte
	rand.Read(b[:])
	return string(d) + "/" + strconv.Itoa(event.ItemPartition(item, s.partitions)) + "/" + item + "/" + hex.EncodeToString(b[:])
}

// Hashed is an event's content with space for its hash.
type Hashed struct {
	event.Content
	sum [sha256.Size]byte
}

// Put stores text as an event's content in out, which takes it over: inline, or as a blob if it is too large.
func (s *Store) Put(ctx context.Context, d event.Domain, item string, text []byte, out *Hashed) error {
	out.sum = sha256.Sum256(text)
	out.SizeBytes, out.Sha256 = uint64(len(text)), out.sum[:]
	if len(text) <= event.InlineContentBytes {
		out.Inline = text
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	key := s.NewKey(d, item)
	if _, err := s.blobs.Put(ctx, key, bytes.NewReader(text), int64(len(text))); err != nil {
		s.Drop(key)
		return endpoint.Unavailable(fmt.Errorf("store content: %w", err))
	}
	out.Blob = key
	return nil
}

// Drop deletes a blob that no document names. If that fails, the sweeper deletes it later.
func (s *Store) Drop(key string) {
	if key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, blobTimeout)
	defer cancel()
	if err := s.blobs.Delete(ctx, key); err != nil {
		s.log.Warn("could not delete an unused blob", "blob", key, "error", err)
	}
}

// Open opens length bytes of a document's content from offset, or the rest if length is -1. The caller closes it.
func (s *Store) Open(ctx context.Context, content *event.Content, offset, length int64) (io.ReadCloser, error) {
	if content.GetBlob() == "" {
		rest := content.GetInline()[min(offset, int64(len(content.GetInline()))):]
		if length >= 0 && length < int64(len(rest)) {
			rest = rest[:length]
		}
		return io.NopCloser(bytes.NewReader(rest)), nil
	}
	r, _, err := s.blobs.Get(ctx, content.Blob, offset, length)
	if err != nil {
		return nil, endpoint.Unavailable(fmt.Errorf("open content: %w", err))
	}
	return verifyHash(r, content, offset, length), nil
}

// verifyHash verifies the hash of a blob that is read as a whole. A part has no hash.
func verifyHash(r io.ReadCloser, content *event.Content, offset, length int64) io.ReadCloser {
	if size := content.Length(); offset == 0 && (length < 0 || length == size) {
		return &checkedReader{ReadCloser: r, hash: sha256.New(), left: size, want: content.Sha256}
	}
	return r
}

// errDamaged replaces the end of a blob whose bytes differ from those stored.
var errDamaged = errors.New("the stored content is damaged")

// checkedReader reads a whole blob. It holds the end back until the hash matches, so that a client sees a damaged blob as a
// truncated answer.
type checkedReader struct {
	io.ReadCloser
	hash hash.Hash
	left int64 // bytes up to the end
	want []byte
}

func (c *checkedReader) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.hash.Write(p[:n])
	c.left -= int64(n)
	ended := c.left <= 0 || errors.Is(err, io.EOF)
	if ended && (c.left != 0 || !bytes.Equal(c.hash.Sum(nil), c.want)) {
		return 0, errDamaged
	}
	return n, err
}

// Load reads a whole content into memory.
func (s *Store) Load(ctx context.Context, content *event.Content) ([]byte, error) {
	if content.GetBlob() == "" {
		return content.GetInline(), nil
	}
	return s.LoadBeginning(ctx, content, content.Length())
}

// LoadBeginning reads the first size bytes of a content into memory.
func (s *Store) LoadBeginning(ctx context.Context, content *event.Content, size int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	r, err := s.Open(ctx, content, 0, size)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, endpoint.Unavailable(fmt.Errorf("read content: %w", err))
	}
	return out, nil
}

// DeletedSince maps the error for a content deleted after its document was read to NotFound, and returns others unchanged.
func DeletedSince(err error) error {
	if errors.Is(err, blob.ErrNotFound) {
		return endpoint.NotFound()
	}
	return err
}

// EscapingReader is a stream as the inside of a JSON string, between the JSON before and after it. It splits no UTF-8
// sequence, and holds one chunk at a time.
type EscapingReader struct {
	source  io.ReadCloser
	pending []byte // ready to read
	after   []byte
	raw     []byte // the chunk; its first carried bytes are an incomplete sequence
	carried int
	left    int64 // bytes still expected from source
	ended   bool
}

const escapeChunk = 32 << 10

// NewEscapingReader reads source, which has size bytes, as the inside of a string between before and after.
func NewEscapingReader(before []byte, source io.ReadCloser, size int64, after []byte) *EscapingReader {
	return &EscapingReader{source: source, pending: before, after: after, raw: make([]byte, escapeChunk), left: size}
}

func (e *EscapingReader) Read(p []byte) (int, error) {
	for len(e.pending) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		if err := e.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, e.pending)
	e.pending = e.pending[n:]
	return n, nil
}

func (e *EscapingReader) next() error {
	n, err := e.source.Read(e.raw[e.carried:])
	e.left -= int64(n)
	have := e.raw[:e.carried+n]
	switch {
	case errors.Is(err, io.EOF) && e.left == 0:
		e.ended = true
		e.pending = append(endpoint.AppendEscaped(nil, have), e.after...)
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	whole := WholeRunes(have)
	e.pending = endpoint.AppendEscaped(e.pending[:0], have[:whole])
	e.carried = copy(e.raw, have[whole:])
	return nil
}

// Close closes the source.
func (e *EscapingReader) Close() error { return e.source.Close() }

// WholeRunes is the length of b without an incomplete UTF-8 sequence at its end.
func WholeRunes(b []byte) int {
	for i := len(b) - 1; i >= 0 && i > len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if utf8.FullRune(b[i:]) {
				break
			}
			return i
		}
	}
	return len(b)
}
