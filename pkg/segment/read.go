package segment

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/num"
)

// tailBytes is what a reader of an index reads first. Most indexes are smaller; others take a second read.
const tailBytes = 256 << 10

// Summary is what the index of a segment says about the whole.
type Summary struct {
	Segment
	Installation string
	Partition    int
	Messages     uint64

	EarliestNanos, LatestNanos int64 // times of messages
	FirstChain, LastChain      Hash  // before the first message and after the last one
	Frames                     int
	FramesBytes, IndexBytes    int64 // as stored
	Accounts, Networks         int   // mentioned
}

// opened is a segment whose index was read.
type opened struct {
	archive *Archive
	Segment
	trailer
	index
	encoded []byte // index
	tail    []byte // everything after the frames, as stored
}

// damaged separates wrong content from a failing store and an ended context. Errors that say already what they are stay.
func (s *Segment) damaged(offset int64, err error) error {
	if errors.Is(err, ErrFormat) || errors.Is(err, ErrForeign) {
		return fmt.Errorf("segment %s: %w", s.Key, err)
	}
	return &DamageError{Segment: s.Key, Offset: offset, Err: err}
}

// read fills b from the segment.
func (a *Archive) read(ctx context.Context, s *Segment, offset int64, b []byte) error {
	r, err := a.open(ctx, s, offset, int64(len(b)))
	if err != nil {
		return err
	}
	defer r.Close()
	return s.fill(r, offset, b)
}

// open opens a range of the segment. A blob of another size than the listed one is damaged.
func (a *Archive) open(ctx context.Context, s *Segment, offset, length int64) (io.ReadCloser, error) {
	r, info, err := a.store.Get(ctx, s.Key, offset, length)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.Key, err)
	}
	if info.Size != s.Size {
		err := s.damaged(min(info.Size, s.Size), fmt.Errorf("it has %d bytes, and had %d", info.Size, s.Size))
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// fill reads all of b. The blob is long enough, so that an early end is a damage.
func (s *Segment) fill(r io.Reader, offset int64, b []byte) error {
	n, err := io.ReadFull(r, b)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.damaged(offset+int64(n), io.ErrUnexpectedEOF)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", s.Key, err)
	}
	return nil
}

// parseTail parses the trailer at the end of b.
func (s *Segment) parseTail(b []byte) (trailer, error) {
	t, err := parseTrailer(b[len(b)-trailerBytes:], s.Size)
	if err == nil && (t.first != s.First || t.last != s.Last) {
		err = fmt.Errorf("%w: it has the messages %d to %d", errTrailer, t.first, t.last)
	}
	if err != nil {
		return t, s.damaged(s.Size-trailerBytes, err)
	}
	return t, nil
}

// trailer reads the trailer alone.
func (a *Archive) trailer(ctx context.Context, s *Segment) (trailer, error) {
	if t, ok := a.trailers.get(s.Key); ok {
		return t, nil
	}
	if s.Size < trailerBytes {
		return trailer{}, s.damaged(s.Size, io.ErrUnexpectedEOF)
	}
	b := make([]byte, trailerBytes)
	if err := a.read(ctx, s, s.Size-trailerBytes, b); err != nil {
		return trailer{}, err
	}
	t, err := s.parseTail(b)
	if err == nil {
		a.trailers.put(s.Key, t)
	}
	return t, err
}

// openIndex reads the index and the trailer, by one Get if they are in the last 256 KB.
func (a *Archive) openIndex(ctx context.Context, s Segment) (*opened, error) {
	if s.Size < trailerBytes {
		return nil, s.damaged(s.Size, io.ErrUnexpectedEOF)
	}
	o := &opened{archive: a, Segment: s, tail: make([]byte, min(s.Size, tailBytes))}
	if err := a.read(ctx, &s, s.Size-int64(len(o.tail)), o.tail); err != nil {
		return nil, err
	}
	var err error
	if o.trailer, err = s.parseTail(o.tail); err != nil {
		return nil, err
	}
	whole := s.Size - o.framesBytes // at most about maxIndexBytes, by trailer.check
	if missing := whole - int64(len(o.tail)); missing > 0 {
		tail := make([]byte, whole)
		copy(tail[missing:], o.tail)
		if err := a.read(ctx, &s, o.framesBytes, tail[:missing]); err != nil {
			return nil, err
		}
		o.tail = tail
	}
	o.tail = o.tail[int64(len(o.tail))-whole:]
	if err := o.parse(); err != nil {
		return nil, s.damaged(o.framesBytes, err)
	}
	a.trailers.put(s.Key, o.trailer)
	return o, nil
}

func (o *opened) parse() error {
	head, stored := o.tail[:skippableHeadBytes], o.tail[skippableHeadBytes:len(o.tail)-trailerBytes]
	if !bytes.Equal(head, o.skippableHead()) {
		return fmt.Errorf("%w: its frame has another head", errIndex)
	}
	if sha256.Sum256(stored) != o.trailer.index {
		return fmt.Errorf("%w: it has another hash", errIndex)
	}
	var err error
	if o.encoded, err = o.archive.decompress(stored, int(o.indexLength), nil); err != nil {
		return fmt.Errorf("%w: %w", errIndex, err)
	}
	x, err := parseIndex(o.encoded, &o.trailer)
	if err != nil {
		return err
	}
	if x.installation != o.archive.options.Installation || x.stream != o.Stream {
		return fmt.Errorf("%w: %s of installation %s", ErrForeign, x.stream, x.installation)
	}
	o.index = *x
	return nil
}

func (o *opened) summary() Summary {
	return Summary{
		Segment: o.Segment, Installation: o.installation, Partition: int(o.partition), Messages: o.messages,
		EarliestNanos: o.earliest, LatestNanos: o.latest, FirstChain: o.before, LastChain: o.after,
		Frames: len(o.index.frames), FramesBytes: o.framesBytes, IndexBytes: int64(o.indexBytes),
		Accounts: len(o.accounts), Networks: len(o.networks),
	}
}

// Describe reads the index of a segment.
func (a *Archive) Describe(ctx context.Context, s Segment) (Summary, error) {
	o, err := a.openIndex(ctx, s)
	if err != nil {
		return Summary{}, err
	}
	return o.summary(), nil
}

// decompress decompresses one zstd frame of exactly length bytes into space, or into new memory if that is too small.
func (a *Archive) decompress(stored []byte, length int, space []byte) ([]byte, error) {
	var head zstd.Header
	if err := head.Decode(stored); err != nil {
		return nil, fmt.Errorf("decode the head of a zstd frame: %w", err)
	}
	if head.Skippable || head.DictionaryID != 0 || !head.HasCheckSum || !head.HasFCS || head.FrameContentSize != num.Uint64(length) {
		return nil, fmt.Errorf("a zstd frame of %d bytes, want one of %d with a checksum", head.FrameContentSize, length)
	}
	if cap(space) < length {
		space = make([]byte, 0, length)
	}
	out, err := a.decoder.DecodeAll(stored, space[:0:length])
	if err != nil {
		return nil, fmt.Errorf("decompress: %w", err)
	}
	if len(out) != length {
		return nil, fmt.Errorf("%d bytes after decompression, want %d", len(out), length)
	}
	return out, nil
}

var (
	errFrame   = errors.New("frame is not the one in the index")
	errStopped = errors.New("the reader wants no more")
)

// checker checks records of frames against the index and the chain.
type checker struct {
	chain    func(before Hash, m Message) Hash
	subjects interned
	// The chain before message at is stored when that passes.
	at   uint64
	have Hash
}

// check checks all records of a frame, after which the chain must be next.
func (c *checker) check(f *frame, next Hash, records []byte) error {
	chain, want, times := f.before, f.first, span{}
	for len(records) > 0 {
		m, rest, err := cutRecord(records, &c.subjects)
		if err != nil {
			return err
		}
		if m.Sequence != want {
			return fmt.Errorf("%w: message %d instead of %d", errFrame, m.Sequence, want)
		}
		if m.Sequence == c.at {
			c.have = chain
		}
		chain = c.chain(chain, m)
		times.add(span{lowest: m.TimeNanos, highest: m.TimeNanos, any: true})
		records = rest
		want++
	}
	switch {
	case want != f.last+1:
		return fmt.Errorf("%w: it ends before message %d", errFrame, want)
	case times.lowest != f.earliest || times.highest != f.latest:
		return fmt.Errorf("%w: its messages have other times", errFrame)
	case chain != next:
		return fmt.Errorf("%w: the chain does not continue", errFrame)
	}
	return nil
}

// each calls handle for the messages of a checked frame from one on.
func (c *checker) each(records []byte, from, to uint64, handle func(Message) error) error {
	for len(records) > 0 {
		m, rest, err := cutRecord(records, &c.subjects)
		if err != nil || m.Sequence > to {
			return err
		}
		if m.Sequence >= from {
			if err := handle(m); err != nil {
				return err
			}
		}
		records = rest
	}
	return nil
}

// chainAfter is the chain after a frame.
func (o *opened) chainAfter(frame int) Hash {
	if frame+1 < len(o.index.frames) {
		return o.index.frames[frame+1].before
	}
	return o.after
}
