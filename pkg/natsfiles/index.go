package natsfiles

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"

	"quire.dev/pkg/num"
)

const (
	indexFile    = "index.db"
	indexMagic   = 11
	indexVersion = 4 // the only one read in full; the last sequence has the same position in all versions
	minIndex     = 32
)

// index is the summary of a stream that the server writes when it stops, and now and then before. Layout of the file: magic,
// version, state, subjects, blocks, number and last checksum of the last block, checksum of the whole. All numbers but the
// first two bytes are varints.
type index struct {
	messages, bytes     uint64
	first, last         uint64 // sequences
	firstTime, lastTime int64  // Unix nanoseconds, like all times
	subjects            []indexedSubject
	blocks              []indexedBlock
	end                 []byte // last checksum of the last block
	whole               bool   // otherwise only last is set
}

type indexedSubject struct {
	name                  string
	messages              uint64
	firstBlock, lastBlock uint64 // numbers
}

type indexedBlock struct {
	number              uint32
	bytes               uint64 // of its messages
	first, last         uint64
	firstTime, lastTime int64
}

// readIndex reads the index of a stream. The file is only a cache of the server's, so an unreadable index is treated as empty.
func readIndex(p *plan) index {
	data, err := os.ReadFile(p.indexFile())
	if err != nil || len(data) < minIndex {
		return index{}
	}
	body, want := data[:len(data)-checksumBytes], data[len(data)-checksumBytes:]
	if !bytes.Equal(checksum(nameHash(p.name), body), want) || body[0] != indexMagic {
		return index{}
	}
	f := fields{rest: body[2:]}
	x := index{messages: f.number(), bytes: f.number(), first: f.number(), firstTime: f.time(), last: f.number()}
	if f.bad {
		return index{}
	}
	if body[1] == indexVersion {
		x.readParts(&f)
	}
	return x
}

// readParts reads everything after the last sequence. The index is then whole, unless messages in between were deleted, or some
// have a lifetime or a schedule, which no journal of Quire has.
func (x *index) readParts(f *fields) {
	x.lastTime = f.time()
	for range f.count() {
		x.subjects = append(x.subjects, indexedSubject{f.text(), f.number(), f.number(), f.number()})
	}
	plain := true
	for range f.count() {
		b := indexedBlock{number: num.Uint32(f.number()), bytes: f.number(), first: f.number()}
		b.firstTime = f.time() + x.firstTime
		b.last = f.number()
		b.lastTime = f.time() + x.firstTime
		deleted, lifetimes, schedules := f.number(), f.number(), f.number()
		if plain = plain && !f.bad && deleted+lifetimes+schedules == 0; !plain {
			return
		}
		x.blocks = append(x.blocks, b)
	}
	last := f.number()
	x.end = f.rest
	x.whole = !f.bad && len(x.end) == checksumBytes && len(x.blocks) > 0 && last == uint64(x.blocks[len(x.blocks)-1].number)
}

// encode is the inverse of readIndex for a whole index.
func (x index) encode(stream string) []byte {
	b := []byte{indexMagic, indexVersion}
	b = binary.AppendUvarint(b, x.messages)
	b = binary.AppendUvarint(b, x.bytes)
	b = binary.AppendUvarint(b, x.first)
	b = binary.AppendVarint(b, x.firstTime)
	b = binary.AppendUvarint(b, x.last)
	b = binary.AppendVarint(b, x.lastTime)
	b = binary.AppendUvarint(b, uint64(len(x.subjects)))
	for _, s := range x.subjects {
		b = append(binary.AppendUvarint(b, uint64(len(s.name))), s.name...)
		b = binary.AppendUvarint(b, s.messages)
		b = binary.AppendUvarint(b, s.firstBlock)
		b = binary.AppendUvarint(b, s.lastBlock)
	}
	b = binary.AppendUvarint(b, uint64(len(x.blocks)))
	for _, k := range x.blocks {
		b = binary.AppendUvarint(b, uint64(k.number))
		b = binary.AppendUvarint(b, k.bytes)
		b = binary.AppendUvarint(b, k.first)
		b = binary.AppendVarint(b, k.firstTime-x.firstTime)
		b = binary.AppendUvarint(b, k.last)
		b = binary.AppendVarint(b, k.lastTime-x.firstTime)
		b = append(b, 0, 0, 0) // deleted, with a lifetime, with a schedule
	}
	b = binary.AppendUvarint(b, uint64(x.blocks[len(x.blocks)-1].number))
	b = append(b, x.end...)
	return append(b, checksum(nameHash(stream), b)...)
}

// describes reports whether the first n blocks are those in the index, so that none of them is truncated.
func (x index) describes(blocks []blockFile, n int) bool {
	if len(blocks) < n || len(x.blocks) < n {
		return false
	}
	for i, known := range x.blocks[:n] {
		b := blocks[i]
		if b.Index != known.number || num.Uint64(b.Size) < known.bytes || filepath.Base(filepath.Dir(b.Path)) != messagesFolder {
			return false
		}
	}
	return true
}

// isLast reports whether the index is current: the last block ends with the record that the index names. The server then trusts
// the index, and otherwise reads all blocks.
func (x index) isLast(blocks []blockFile) bool {
	if len(blocks) != len(x.blocks) || !x.describes(blocks, len(blocks)) {
		return false
	}
	end, err := lastChecksum(blocks[len(blocks)-1])
	return err == nil && bytes.Equal(x.end, end)
}

func lastChecksum(b blockFile) ([]byte, error) {
	file, err := os.Open(b.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	end := make([]byte, checksumBytes)
	_, err = io.ReadFull(io.NewSectionReader(file, b.Size-checksumBytes, checksumBytes), end)
	return end, err
}

// endOf returns the last checksum of the index's last block, and nil for other blocks.
func (x index) endOf(b blockFile) []byte {
	if x.whole && b.Index == x.blocks[len(x.blocks)-1].number {
		return x.end
	}
	return nil
}

// extend returns the index that the server would write if it stopped now. The stream must have no gaps, and only appends
// since the index was written. spans holds the blocks that were read, from the index's last one on. It returns false if
// anything else has happened, a deletion for example.
func (x index) extend(blocks []blockFile, spans []span) (index, bool) {
	grown := len(x.blocks) - 1
	if !spans[grown].indexed || x.blocks[grown].last != x.last {
		return index{}, false
	}
	next := x
	next.blocks, next.subjects = slices.Clone(x.blocks), slices.Clone(x.subjects)
	for i, sp := range spans[grown:] {
		b := blocks[grown+i]
		if sp.unread || sp.torn != nil || sp.since.others || sp.first == 0 || b.Index != x.blocks[grown].number+uint32(i) {
			return index{}, false
		}
		if i > 0 {
			next.blocks = append(next.blocks, indexedBlock{number: b.Index, first: sp.first, firstTime: sp.firstTime})
		}
		last := &next.blocks[grown+i]
		last.bytes += sp.since.bytes
		last.last, last.lastTime = sp.last, sp.lastTime
		next.bytes += sp.since.bytes
		next.messages += next.count(sp.since.messages, uint64(b.Index))
		next.last, next.lastTime = sp.last, sp.lastTime
	}
	end, err := lastChecksum(blocks[len(blocks)-1])
	next.end = end
	return next, err == nil && next.messages-x.messages == next.last-x.last
}

// count adds the messages of a block by subject, and returns their number.
func (x *index) count(messages map[string]uint64, block uint64) (sum uint64) {
	for name, n := range messages {
		sum += n
		at := slices.IndexFunc(x.subjects, func(s indexedSubject) bool { return s.name == name })
		if at < 0 {
			x.subjects = append(x.subjects, indexedSubject{name: name, firstBlock: block})
			at = len(x.subjects) - 1
		}
		x.subjects[at].messages += n
		x.subjects[at].lastBlock = block
	}
	return sum
}

// fields reads varints. Past the end it returns 0 and sets bad.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) number() uint64 {
	v, n := binary.Uvarint(f.rest)
	f.move(n)
	return v
}

func (f *fields) time() int64 {
	v, n := binary.Varint(f.rest)
	f.move(n)
	return v
}

func (f *fields) move(n int) {
	if n <= 0 {
		f.rest, f.bad = nil, true
		return
	}
	f.rest = f.rest[n:]
}

// count reads the number of following elements, each of at least one byte.
func (f *fields) count() uint64 {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.rest, f.bad = nil, true
		return 0
	}
	return n
}

func (f *fields) text() string {
	n := f.count()
	text := string(f.rest[:n])
	f.rest = f.rest[n:]
	return text
}
