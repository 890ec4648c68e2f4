package natsfiles

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

	"quire.dev/pkg/num"
)

// Layout of a record: its length (4 bytes; top bit: it has headers), sequence (8; top bits: erased, tombstone), time (8),
// length of the subject (2), subject, [length of the headers (4), headers,] message, checksum (8). The checksum covers
// sequence, time, subject, headers and message, but not the lengths: a wrong length of the subject goes undetected. Headers end in a
// blank line, so theirs can be checked.
const (
	headerBytes   = 22 // before the subject
	checksumBytes = 8
	headersBit    = 1 << 31
	headersEnd    = "\r\n\r\n"
	erasedBit     = 1 << 63
	tombstoneBit  = 1 << 62
	maxRecord     = 32 << 20

	// messagesFolder is the folder of blocks inside the stream's folder.
	messagesFolder = "msgs"
)

// record is one record. Its slices alias the parsed buffer.
type record struct {
	Length    int64
	Sequence  uint64 // without the Erased and Tombstone bits
	Time      int64  // Unix nanoseconds
	Subject   []byte
	Header    []byte
	Message   []byte // without headers
	Checksum  []byte
	Erased    bool // the message was deleted, and its bytes overwritten
	Tombstone bool // marks the deletion of a message
}

// parse parses a record of the given length at the start of buf. It returns false for an invalid record.
func parse(h *highwayhash.Digest64, buf []byte, length int64) (record, bool) {
	if length < headerBytes+checksumBytes || length > int64(len(buf)) || length > maxRecord {
		return record{}, false
	}
	head := buf[:headerBytes]
	subject := int64(binary.LittleEndian.Uint16(head[20:]))
	data := buf[headerBytes:length]
	end := int64(len(data)) - checksumBytes
	from, headers := subject, int64(0)
	if binary.LittleEndian.Uint32(head)&headersBit != 0 {
		if from += 4; from > end {
			return record{}, false
		}
		headers = int64(binary.LittleEndian.Uint32(data[subject:]))
		if before, _, ok := bytes.Cut(data[from:end], []byte(headersEnd)); !ok || int64(len(before)+len(headersEnd)) != headers {
			return record{}, false
		}
	}
	if from > end {
		return record{}, false
	}
	h.Reset()
	var want [checksumBytes]byte
	if !bytes.Equal(sum(h, want[:0], head[4:20], data[:subject], data[from:end]), data[end:]) {
		return record{}, false
	}
	sequence := binary.LittleEndian.Uint64(head[4:])
	return record{
		Length:    length,
		Sequence:  sequence &^ (erasedBit | tombstoneBit),
		Time:      num.FromBits(binary.LittleEndian.Uint64(head[12:])),
		Subject:   data[:subject],
		Header:    data[from : from+headers],
		Message:   data[from+headers : end],
		Checksum:  data[end:],
		Erased:    sequence&erasedBit != 0,
		Tombstone: sequence&tombstoneBit != 0,
	}, true
}

// statedLength returns the length field of the record at the start of buf, which has at least headerBytes.
func statedLength(buf []byte) int64 {
	return int64(binary.LittleEndian.Uint32(buf) &^ headersBit)
}

// statedSequence returns the sequence field of the record at the start of buf.
func statedSequence(buf []byte) uint64 {
	return binary.LittleEndian.Uint64(buf[4:]) &^ (erasedBit | tombstoneBit)
}

// checksum returns the checksum of the concatenated parts.
func checksum(h *highwayhash.Digest64, parts ...[]byte) []byte { return sum(h, nil, parts...) }

func sum(h *highwayhash.Digest64, b []byte, parts ...[]byte) []byte {
	for _, part := range parts {
		_, _ = h.Write(part) // never fails
	}
	return h.Sum(b)
}

// nameHash returns a hash keyed by a name, of a stream or as in blockHash.
func nameHash(name string) *highwayhash.Digest64 {
	key := sha256.Sum256([]byte(name))
	h, err := highwayhash.NewDigest64(key[:])
	if err != nil {
		panic(err) // a key of 32 bytes is valid
	}
	return h
}

// blockHash returns the hash for the records of a block.
func blockHash(stream string, index uint32) *highwayhash.Digest64 {
	return nameHash(fmt.Sprintf("%s-%d", stream, index))
}

type blockFile struct {
	Index uint32
	Path  string
	Size  int64
}

const extension = ".blk"

// next is the block that the server begins once f is full. Its size is unknown.
func (f blockFile) next() blockFile {
	return blockFile{Index: f.Index + 1, Path: filepath.Join(filepath.Dir(f.Path), fmt.Sprint(f.Index+1)+extension)}
}

// listBlocks returns the blocks of a stream's folder in order. They are in messagesFolder, or in another folder during a purge.
func listBlocks(dir string) ([]blockFile, error) {
	for _, name := range []string{"__new_msgs__", messagesFolder} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read stream %s: %w", filepath.Base(dir), err)
		}
		var blocks []blockFile
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
			blocks = append(blocks, blockFile{Index: uint32(index), Path: filepath.Join(dir, name, e.Name()), Size: info.Size()})
		}
		if len(blocks) > 0 {
			slices.SortFunc(blocks, func(a, b blockFile) int { return cmp.Compare(a.Index, b.Index) })
			return blocks, nil
		}
	}
	return nil, nil
}
