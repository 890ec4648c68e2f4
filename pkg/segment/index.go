package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"quire.dev/pkg/num"
)

var errIndex = errors.New("index is malformed")

// index is what a segment says about its frames.
type index struct {
	installation, stream string
	accounts, networks   []uint64 // ascending
	frames               []frame
}

// frame is an entry of the index.
type frame struct {
	offset           int64
	stored           uint32 // bytes
	length           uint32 // bytes of the records
	first, last      uint64
	earliest, latest int64 // times of messages
	requests         span
	before           Hash // chain before the first message

	// Encoded positions in the segment's accounts and networks, see appendPositions. They stay encoded, since most are never read.
	accounts, networks []byte
}

// maxFrameEntry bounds an encoded frame without its accounts and networks, and maxPrincipalEntry what one of them adds to the
// index: an id and a position.
const (
	maxFrameEntry     = 3*5 + 4*binary.MaxVarintLen64 + len(Hash{}) + 2*3
	maxPrincipalEntry = binary.MaxVarintLen64 + maxPositionBytes
	maxPositionBytes  = 3 // of a number below maxPrincipals
	minFrameEntry     = 7 + len(Hash{}) + 2
)

// appendIndex encodes the index. The trailer has what else a reader needs of it.
func appendIndex(b []byte, x *index, t *trailer) []byte {
	for _, name := range []string{x.installation, x.stream} {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	for _, ids := range [][]uint64{x.accounts, x.networks} {
		b = binary.AppendUvarint(b, uint64(len(ids)))
		before := uint64(0)
		for _, id := range ids {
			b = binary.AppendUvarint(b, id-before)
			before = id
		}
	}
	b = binary.AppendUvarint(b, uint64(len(x.frames)))
	for i := range x.frames {
		f := &x.frames[i]
		lowest, over := uint64(0), uint64(0) // no request
		if f.requests.any {
			lowest, over = num.Uint64(f.requests.lowest-t.requests.lowest), num.Uint64(f.requests.highest-f.requests.lowest)+1
		}
		for _, v := range []uint64{
			uint64(f.stored), uint64(f.length), f.last - f.first, num.Uint64(f.earliest - t.earliest), num.Uint64(f.latest - f.earliest), lowest, over,
		} {
			b = binary.AppendUvarint(b, v)
		}
		b = append(b, f.before[:]...)
		b = append(b, f.accounts...)
		b = append(b, f.networks...)
	}
	return b
}

// appendPositions encodes a set of ascending numbers: how many, the first, and from each to the next one less 1.
func appendPositions(b []byte, positions []uint32) []byte {
	b = binary.AppendUvarint(b, uint64(len(positions)))
	next := uint32(0)
	for _, p := range positions {
		b = binary.AppendUvarint(b, uint64(p-next))
		next = p + 1
	}
	return b
}

// hasPosition reports whether an encoded set, which cutPositions has checked, has the number.
func hasPosition(b []byte, position int) bool {
	n, size := binary.Uvarint(b)
	next := uint64(0)
	for range n {
		b = b[size:]
		var v uint64
		v, size = binary.Uvarint(b)
		if next += v; next >= num.Uint64(position) {
			return next == num.Uint64(position)
		}
		next++
	}
	return false
}

// parseIndex parses the index that belongs to a trailer. It allocates at most a few times the size of b.
func parseIndex(b []byte, t *trailer) (*index, error) {
	c := cutter{rest: b}
	x := &index{installation: c.name(), stream: c.name()}
	x.accounts = c.ids()
	x.networks = c.ids()
	n := c.count(maxFrames, minFrameEntry)
	x.frames = make([]frame, 0, n)
	offset, first := int64(0), t.first
	for range n {
		f := c.frame(t)
		f.offset, f.first, f.last = offset, first, first+f.last
		f.accounts = c.positions(len(x.accounts))
		f.networks = c.positions(len(x.networks))
		if c.err == nil && (f.last < f.first || f.last > t.last || f.stored == 0 || f.stored > maxStoredBytes || f.length == 0 || f.length > maxRecordBytes ||
			offset+int64(f.stored) > t.framesBytes || f.latest > t.latest || f.requests.highest > t.requests.highest) {
			c.fail("frame %d is beyond the segment", len(x.frames))
		}
		if c.err != nil {
			return nil, c.err
		}
		offset, first = offset+int64(f.stored), f.last+1
		x.frames = append(x.frames, f)
	}
	switch {
	case c.err != nil:
		return nil, c.err
	case len(c.rest) > 0:
		return nil, fmt.Errorf("%w: %d bytes follow it", errIndex, len(c.rest))
	case n == 0 || first != t.last+1 || offset != t.framesBytes || x.frames[0].before != t.before:
		return nil, fmt.Errorf("%w: its frames do not match the segment", errIndex)
	}
	return x, nil
}

// cutter cuts values off encoded bytes. After a failure it returns zeros.
type cutter struct {
	rest []byte
	err  error
}

func (c *cutter) fail(text string, values ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", errIndex, fmt.Sprintf(text, values...))
	}
	c.rest = nil
}

func (c *cutter) number(most uint64) uint64 {
	v, size := binary.Uvarint(c.rest)
	if size <= 0 || v > most {
		c.fail("a number of %d bytes, %d", size, v)
		return 0
	}
	c.rest = c.rest[size:]
	return v
}

// count is a number of entries that take at least size bytes each.
func (c *cutter) count(most, size int) int {
	n := num.Int(c.number(num.Uint64(most)))
	if n > len(c.rest)/size {
		c.fail("%d entries in %d bytes", n, len(c.rest))
		return 0
	}
	return n
}

func (c *cutter) bytes(n int) []byte {
	if n > len(c.rest) {
		c.fail("%d bytes are left", len(c.rest))
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cutter) name() string { return string(c.bytes(c.count(maxNameBytes, 1))) }

func (c *cutter) ids() []uint64 {
	ids := make([]uint64, c.count(maxPrincipals, 1))
	before := uint64(0)
	for i := range ids {
		v := c.number(math.MaxUint64 - before)
		if c.err == nil && i > 0 && v == 0 {
			c.fail("an id twice")
		}
		before += v
		ids[i] = before
	}
	return ids
}

// positions is an encoded set of numbers below most.
func (c *cutter) positions(most int) []byte {
	all := c.rest
	next := 0
	for range c.count(most, 1) {
		next += num.Int(c.number(maxPrincipals)) + 1
		if next > most {
			c.fail("position %d of %d", next-1, most)
		}
		if c.err != nil {
			return nil
		}
	}
	size := len(all) - len(c.rest)
	return all[:size:size]
}

// frame is an entry without its place in the segment: last is relative to the first message.
func (c *cutter) frame(t *trailer) frame {
	f := frame{
		stored: num.Uint32(c.number(math.MaxUint32)), length: num.Uint32(c.number(math.MaxUint32)),
		last:     c.number(t.last - t.first),
		earliest: t.earliest + num.Int64(c.number(num.Uint64(t.latest-t.earliest))),
	}
	f.latest = f.earliest + num.Int64(c.number(num.Uint64(t.latest-f.earliest)))
	over := uint64(0)
	if t.requests.any {
		over = num.Uint64(t.requests.highest - t.requests.lowest)
	}
	lowest, size := c.number(over), c.number(over+1)
	if size > 0 && t.requests.any {
		f.requests = span{lowest: t.requests.lowest + num.Int64(lowest), any: true}
		f.requests.highest = f.requests.lowest + num.Int64(min(size-1, over-lowest))
	}
	copy(f.before[:], c.bytes(len(Hash{})))
	return f
}

// mentions reports whether the frame has a message of the id. ids are the segment's accounts or networks and encoded the
// frame's.
func mentions(ids []uint64, encoded []byte, id uint64) bool {
	position, found := slices.BinarySearch(ids, id)
	return found && hasPosition(encoded, position)
}
