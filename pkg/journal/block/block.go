// Package block reads the files in which a NATS server keeps the messages of a stream. A stream has a folder of blocks, and a block
// has records, one after the other. The format is that of nats-server 2.10 and later, without encryption and compression.
package block

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// A record has: its length (4 bytes, the top bit: it has headers), sequence (8, the top bits: erased, tombstone), time (8),
// length of the subject (2), subject, [length of the headers (4), headers,] message, checksum (8). The checksum is over
// sequence, time, subject, headers and message, but not over the lengths.
const (
	HeaderBytes   = 22 // before the subject
	ChecksumBytes = 8
	headersBit    = 1 << 31
	erasedBit     = 1 << 63
	tombstoneBit  = 1 << 62
	mostRecord    = 32 << 20

	// MessagesFolder is the folder of the blocks, within that of the stream.
	MessagesFolder = "msgs"
)

// Record is one record. Its slices are parts of what it was parsed from.
type Record struct {
	Length    int64
	Sequence  uint64 // without the bits of Erased and Tombstone
	Time      int64  // Unix nanoseconds
	Subject   []byte
	Message   []byte // without its headers
	Checksum  []byte
	Erased    bool // the message was deleted, and its bytes are overwritten
	Tombstone bool // the record says that a message was deleted
}

// Parse reads the record of that length at the beginning of buf. It returns false if there is no valid record.
func Parse(h *highwayhash.Digest64, buf []byte, length int64) (Record, bool) {
	if length < HeaderBytes+ChecksumBytes || length > int64(len(buf)) || length > mostRecord {
		return Record{}, false
	}
	head := buf[:HeaderBytes]
	subject := int64(binary.LittleEndian.Uint16(head[20:]))
	data := buf[HeaderBytes:length]
	end := int64(len(data)) - ChecksumBytes
	from, headers := subject, int64(0)
	if binary.LittleEndian.Uint32(head)&headersBit != 0 {
		if from += 4; from > end {
			return Record{}, false
		}
		headers = int64(binary.LittleEndian.Uint32(data[subject:]))
	}
	if from+headers > end {
		return Record{}, false
	}
	h.Reset()
	var checksum [ChecksumBytes]byte
	if !bytes.Equal(sum(h, checksum[:0], head[4:20], data[:subject], data[from:end]), data[end:]) {
		return Record{}, false
	}
	sequence := binary.LittleEndian.Uint64(head[4:])
	return Record{
		Length:    length,
		Sequence:  sequence &^ (erasedBit | tombstoneBit),
		Time:      int64(binary.LittleEndian.Uint64(head[12:])),
		Subject:   data[:subject],
		Message:   data[from+headers : end],
		Checksum:  data[end:],
		Erased:    sequence&erasedBit != 0,
		Tombstone: sequence&tombstoneBit != 0,
	}, true
}

// StatedLength is the length of the record that begins with buf, which has HeaderBytes at least, as it says itself.
func StatedLength(buf []byte) int64 {
	return int64(binary.LittleEndian.Uint32(buf) &^ headersBit)
}

// StatedSequence is the sequence of the record that begins with buf, as it says itself.
func StatedSequence(buf []byte) uint64 {
	return binary.LittleEndian.Uint64(buf[4:]) &^ (erasedBit | tombstoneBit)
}

// Sum is the checksum over the parts, one after the other.
func Sum(h *highwayhash.Digest64, parts ...[]byte) []byte { return sum(h, nil, parts...) }

func sum(h *highwayhash.Digest64, b []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		_, _ = h.Write(part) // it never fails
	}
	return h.Sum(b)
}

// Hash makes the checksums of what has that name: of a stream, or of a block as HashOf has it.
func Hash(name string) *highwayhash.Digest64 {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // a key of 32 bytes is valid
	}
	return h
}

// HashOf makes the checksums of the records of a block.
func HashOf(stream string, index uint32) *highwayhash.Digest64 {
	return Hash(fmt.Sprintf("%s-%d", stream, index))
}

// File is the file of a block.
type File struct {
	Index uint32
	Path  string
	Size  int64
}

const extension = ".blk"

// Next is the block that the server begins once f is full. Its size is not known.
func (f File) Next() File {
	return File{Index: f.Index + 1, Path: filepath.Join(filepath.Dir(f.Path), fmt.Sprint(f.Index+1)+extension)}
}

// List returns the blocks of the stream of that folder in order. They are in MessagesFolder, or in another one during a purge.
func List(dir string) ([]File, error) {
	for _, name := range []string{"__new_msgs__", MessagesFolder} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read stream %s: %w", filepath.Base(dir), err)
		}
		var blocks []File
		for _, e := range entries {
			number, isBlock := strings.CutSuffix(e.Name(), extension)
			index, err := strconv.ParseUint(number, 10, 32)
			if !isBlock || err != nil {
				continue
			}
			info, err := e.Info()
			if err != nil {
				return nil, fmt.Errorf("read stream %s: %w", filepath.Base(dir), err)
			}
			blocks = append(blocks, File{Index: uint32(index), Path: filepath.Join(dir, name, e.Name()), Size: info.Size()})
		}
		if len(blocks) > 0 {
			slices.SortFunc(blocks, func(a, b File) int { return cmp.Compare(a.Index, b.Index) })
			return blocks, nil
		}
	}
	return nil, nil
}
