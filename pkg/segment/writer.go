package segment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/num"
)

// Writer writes one segment. It is for one goroutine. It holds one frame in memory, and the accounts and networks of the
// segment; the frames are in a temporary file until Put.
type Writer struct {
	archive   *Archive
	stream    string
	partition uint32
	encoder   *zstd.Encoder
	spool     *os.File
	sum       hash.Hash // of everything in the spool
	size      int64

	indexer *indexer
	records []byte // of the frame that is not in the spool yet
	stored  []byte // reused
	err     error  // ends the writer
}

// Create begins the segment that follows a chain, which is zero for a segment that begins with message 1. The caller closes the
// writer.
func (a *Archive) Create(stream string, partition int, before Hash) (*Writer, error) {
	if !validName(stream) || partition < 0 || partition > math.MaxInt32 || a.options.Mentions == nil {
		return nil, fmt.Errorf("%w: stream %q and partition %d", ErrInvalid, stream, partition)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowBytes), zstd.WithSingleSegment(true), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("create a zstd encoder: %w", err)
	}
	spool, err := os.CreateTemp(a.options.Folder, "segment-*")
	if err != nil {
		return nil, fmt.Errorf("create a temporary file for a segment: %w", err)
	}
	// Nothing is left of it after a crash.
	if err := os.Remove(spool.Name()); err != nil {
		return nil, errors.Join(fmt.Errorf("unlink the temporary file of a segment: %w", err), spool.Close())
	}
	return &Writer{
		archive: a, stream: stream, partition: uint32(partition), encoder: encoder, spool: spool, sum: sha256.New(),
		indexer: newIndexer(&a.options, before),
	}, nil
}

// Add adds the next message. It returns ErrFull, without adding the message, when the segment has its maximum size of 64 MB,
// ErrGap if the message does not follow the last one, and ErrInvalid for one that no segment can have. The writer stays usable
// after these errors.
func (w *Writer) Add(m Message) error {
	if w.err != nil {
		return w.err
	}
	if err := w.check(m); err != nil {
		return err
	}
	if len(w.records) > 0 && len(w.records)+recordBytes(m) > w.archive.frameBytes {
		if err := w.flush(); err != nil {
			return err
		}
	}
	begins := len(w.records) == 0
	if begins && (w.size >= w.archive.segmentBytes || len(w.indexer.frames) >= maxFrames) {
		return ErrFull
	}
	found, err := w.indexer.inspect(m)
	if err != nil {
		return err
	}
	if begins {
		w.indexer.begin(m)
	}
	w.indexer.add(m, found)
	w.records = appendRecord(w.records, m)
	return nil
}

func (w *Writer) check(m Message) error {
	switch next := w.indexer.next; {
	case next != 0 && m.Sequence > next:
		return &GapError{Stream: w.stream, First: next, Last: m.Sequence - 1}
	case m.Sequence == 0 || m.Sequence == math.MaxUint64 || next != 0 && m.Sequence < next:
		return fmt.Errorf("%w: message %d after %d", ErrInvalid, m.Sequence, next-1)
	case m.Sequence == 1 && w.indexer.chain != Hash{}:
		return fmt.Errorf("%w: message 1 has a chain before it", ErrInvalid)
	case m.TimeNanos < 0 || len(m.Subject) > maxSubjectBytes || len(m.Data) > maxDataBytes:
		return fmt.Errorf("%w: message %d has the time %d, a subject of %d bytes and %d bytes of data",
			ErrInvalid, m.Sequence, m.TimeNanos, len(m.Subject), len(m.Data))
	}
	return nil
}

// Size is how many bytes the finished frames take.
func (w *Writer) Size() int64 { return w.size }

// Chain is the chain after the last message.
func (w *Writer) Chain() Hash { return w.indexer.chain }

// flush ends the frame.
func (w *Writer) flush() error {
	f := &w.indexer.frames[len(w.indexer.frames)-1]
	w.stored = w.encoder.EncodeAll(w.records, w.stored[:0])
	f.offset, f.stored, f.length = w.size, num.Uint32(len(w.stored)), num.Uint32(len(w.records))
	err := w.write(w.stored)
	if w.records = w.records[:0]; cap(w.records) > 4*frameTargetBytes {
		w.records, w.stored = nil, nil // of a frame with one large message
	}
	return err
}

func (w *Writer) write(b []byte) error {
	if _, err := w.spool.Write(b); err != nil {
		w.err = fmt.Errorf("write a segment of %s to a temporary file: %w", w.stream, err)
		return w.err
	}
	w.sum.Write(b)
	w.size += int64(len(b))
	return nil
}

// finish writes what is left, and returns the segment as it will be in the store.
func (w *Writer) finish() (Segment, error) {
	if len(w.records) > 0 {
		if err := w.flush(); err != nil {
			return Segment{}, err
		}
	}
	t := trailer{framesBytes: w.size, partition: w.partition}
	w.sum.Sum(t.frames[:0])
	encoded := w.indexer.encode(w.stream, &t)
	stored := w.encoder.EncodeAll(encoded, nil)
	t.index, t.indexBytes, t.indexLength = sha256.Sum256(stored), num.Uint32(len(stored)), num.Uint32(len(encoded))
	for _, part := range [][]byte{t.skippableHead(), stored, t.append(nil)} {
		if err := w.write(part); err != nil {
			return Segment{}, err
		}
	}
	s := Segment{Stream: w.stream, First: t.first, Last: t.last, Start: t.first, Size: w.size}
	w.sum.Sum(s.Hash[:0])
	s.Key = s.key()
	return s, nil
}

// Put ends the segment, stores it, and verifies what the store then has. The writer can't be used again, but for Close. A Put that
// failed is repeated by writing the same messages again: they get the same key.
func (w *Writer) Put(ctx context.Context) (Segment, error) {
	if w.err != nil {
		return Segment{}, w.err
	}
	if w.indexer.next == 0 {
		return Segment{}, fmt.Errorf("%w: a segment without messages", ErrInvalid)
	}
	s, err := w.finish()
	if err != nil {
		return Segment{}, err
	}
	w.err = fmt.Errorf("%w: the segment was put", ErrInvalid)
	if _, err := w.archive.store.Put(ctx, s.Key, io.NewSectionReader(w.spool, 0, s.Size), s.Size); err != nil {
		return Segment{}, fmt.Errorf("put %s: %w", s.Key, err)
	}
	if _, err := w.archive.Verify(ctx, s); err != nil {
		return Segment{}, fmt.Errorf("verify what was put: %w", err)
	}
	return s, nil
}

// Close frees the temporary file.
func (w *Writer) Close() error {
	if w.spool == nil {
		return nil
	}
	err := errors.Join(w.spool.Close(), w.encoder.Close())
	w.spool = nil
	if w.err == nil {
		w.err = fmt.Errorf("%w: the writer is closed", ErrInvalid)
	}
	return err
}
