package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"

	"quire.dev/pkg/num"
)

const (
	format       = 1
	magic        = "QUIRESEG"
	trailerBytes = 256

	// The index and the trailer are the content of a skippable frame, which decoders of zstd ignore.
	skippableMagic     = 0x184D2A51
	skippableHeadBytes = 8
)

var errTrailer = errors.New("trailer is malformed")

// trailer is the last part of a segment, of a fixed size.
type trailer struct {
	frames        Hash // SHA-256 of the frames
	before, after Hash // chain before the first message and after the last one
	index         Hash // SHA-256 of the index as stored

	first, last      uint64
	earliest, latest int64 // times of messages, which the journal's clock can have set back between two
	requests         span  // milliseconds
	messages         uint64
	framesBytes      int64  // stored; the skippable frame follows
	indexBytes       uint32 // stored
	indexLength      uint32 // decompressed
	partition        uint32
}

// span is a range of times, with both ends.
type span struct {
	lowest, highest int64
	any             bool
}

func (s *span) add(other span) {
	if !other.any {
		return
	}
	if !s.any {
		*s = other
	}
	s.lowest, s.highest = min(s.lowest, other.lowest), max(s.highest, other.highest)
}

func (s span) overlaps(lowest, highest int64) bool {
	return s.any && s.lowest <= highest && lowest <= s.highest
}

func (t *trailer) append(b []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, sha256.Size)...) // of the rest, below
	for _, h := range []Hash{t.frames, t.before, t.after, t.index} {
		b = append(b, h[:]...)
	}
	lowest, highest := uint64(math.MaxUint64), uint64(0) // no request
	if t.requests.any {
		lowest, highest = num.Bits(t.requests.lowest), num.Bits(t.requests.highest)
	}
	for _, v := range []uint64{t.first, t.last, num.Bits(t.earliest), num.Bits(t.latest), lowest, highest, t.messages, num.Bits(t.framesBytes)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	for _, v := range []uint32{t.indexBytes, t.indexLength, t.partition, 0, format, trailerBytes} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, magic...)
	sum := sha256.Sum256(b[start+sha256.Size:])
	copy(b[start:], sum[:])
	return b
}

// parseTrailer parses the last bytes of a segment of the given size.
func parseTrailer(b []byte, size int64) (t trailer, err error) {
	if len(b) != trailerBytes || string(b[trailerBytes-len(magic):]) != magic {
		return t, fmt.Errorf("%w: this is no segment, or not all of one", errTrailer)
	}
	if f := binary.BigEndian.Uint32(b[trailerBytes-16:]); f != format && sha256.Sum256(b[sha256.Size:]) == [sha256.Size]byte(b) {
		return t, fmt.Errorf("%w: %d", ErrFormat, f)
	}
	if sha256.Sum256(b[sha256.Size:]) != [sha256.Size]byte(b) {
		return t, fmt.Errorf("%w: it has another hash", errTrailer)
	}
	at := b[sha256.Size:]
	for _, h := range []*Hash{&t.frames, &t.before, &t.after, &t.index} {
		at = at[copy(h[:], at):]
	}
	var v [8]uint64
	for i := range v {
		v[i], at = binary.BigEndian.Uint64(at), at[8:]
	}
	t.first, t.last, t.messages = v[0], v[1], v[6]
	t.earliest, t.latest, t.framesBytes = num.FromBits(v[2]), num.FromBits(v[3]), num.FromBits(v[7])
	if v[4] <= v[5] {
		t.requests = span{lowest: num.FromBits(v[4]), highest: num.FromBits(v[5]), any: true}
	}
	t.indexBytes, t.indexLength, t.partition = binary.BigEndian.Uint32(at), binary.BigEndian.Uint32(at[4:]), binary.BigEndian.Uint32(at[8:])
	return t, t.check(size)
}

// check bounds what the trailer makes a reader do.
func (t *trailer) check(size int64) error {
	switch {
	case t.first == 0 || t.last < t.first || t.messages != t.last-t.first+1:
		return fmt.Errorf("%w: %d messages from %d to %d", errTrailer, t.messages, t.first, t.last)
	case t.earliest < 0 || t.latest < t.earliest || t.requests.any && (t.requests.lowest < 0 || t.requests.highest < 0):
		return fmt.Errorf("%w: times out of order", errTrailer)
	case t.indexLength > maxIndexBytes || t.indexBytes > maxIndexBytes+4096 || t.framesBytes <= 0 || t.framesBytes > 2*maxFrameBytes:
		return fmt.Errorf("%w: %d bytes of frames and %d of the index", errTrailer, t.framesBytes, t.indexLength)
	case t.framesBytes+skippableHeadBytes+int64(t.indexBytes)+trailerBytes != size:
		return fmt.Errorf("%w: a segment of %d bytes, with %d of frames and %d of the index", errTrailer, size, t.framesBytes, t.indexBytes)
	case t.first == 1 && t.before != Hash{}:
		return fmt.Errorf("%w: a chain before the first message", errTrailer)
	}
	return nil
}

// skippableHead is the head of the frame with the index and the trailer.
func (t *trailer) skippableHead() []byte {
	head := binary.LittleEndian.AppendUint32(nil, skippableMagic)
	return binary.LittleEndian.AppendUint32(head, t.indexBytes+trailerBytes)
}

// trailers caches by key. Segments never change.
type trailers struct {
	mu    sync.Mutex
	byKey map[string]trailer
}

func (c *trailers) get(key string) (trailer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.byKey[key]
	return t, ok
}

func (c *trailers) put(key string, t trailer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byKey == nil {
		c.byKey = map[string]trailer{}
	}
	for other := range c.byKey {
		if len(c.byKey) < maxTrailers {
			break
		}
		delete(c.byKey, other)
	}
	c.byKey[key] = t
}
