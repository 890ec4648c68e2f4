package streamcheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/minio/highwayhash"
)

// A record has: its length (4 bytes, the top bit: it has headers), sequence (8, the top bits: erased, tombstone), time (8),
// length of the subject (2), subject, [length of the headers (4), headers,] message, checksum (8). The checksum is over
// sequence, time, subject, headers and message, but not over the lengths.
const (
	headerBytes   = 22
	checksumBytes = 8
	headersBit    = 1 << 31
	erasedBit     = 1 << 63
	tombstoneBit  = 1 << 62
	mostRecord    = 32 << 20
)

// span is the range of sequences in one block.
type span struct {
	first, last uint64 // of its messages
	top         uint64 // largest sequence in any record
	torn        *Tail
	unread      bool // its records were not read

	firstTime, lastTime int64 // of first and last, in Unix nanoseconds
	since               added // its beginning, or the record that the index names as the last one
	indexed             bool  // it has that record
}

// added are the records after another one.
type added struct {
	bytes    uint64            // of messages
	messages map[string]uint64 // by subject
	others   bool              // there are records that are no messages, or of deleted ones
}

// record is one parsed record.
type record struct {
	length    int64
	sequence  uint64
	time      int64 // Unix nanoseconds
	subject   []byte
	checksum  []byte
	erased    bool
	tombstone bool
}

// parse reads the record of that length at the beginning of buf. It returns false if there is no valid record.
func parse(h *highwayhash.Digest64, buf []byte, length int64) (record, bool) {
	if length < headerBytes+checksumBytes || length > int64(len(buf)) || length > mostRecord {
		return record{}, false
	}
	head := buf[:headerBytes]
	subject := int64(binary.LittleEndian.Uint16(head[20:]))
	data := buf[headerBytes:length]
	end := int64(len(data)) - checksumBytes
	from := subject
	if binary.LittleEndian.Uint32(head)&headersBit != 0 {
		from += 4
	}
	if from > end {
		return record{}, false
	}
	h.Reset()
	if !bytes.Equal(sum(h, head[4:20], data[:subject], data[from:end]), data[end:]) {
		return record{}, false
	}
	sequence := binary.LittleEndian.Uint64(head[4:])
	return record{
		length:    length,
		sequence:  sequence &^ (erasedBit | tombstoneBit),
		time:      int64(binary.LittleEndian.Uint64(head[12:])),
		subject:   data[:subject],
		checksum:  data[end:],
		erased:    sequence&erasedBit != 0,
		tombstone: sequence&tombstoneBit != 0,
	}, true
}

// sum is the checksum over the parts, one after the other.
func sum(h *highwayhash.Digest64, parts ...[]byte) []byte {
	for _, part := range parts {
		_, _ = h.Write(part) // it never fails
	}
	return h.Sum(nil)
}

func statedLength(buf []byte) int64 {
	return int64(binary.LittleEndian.Uint32(buf) &^ headersBit)
}

// block reads the records of one file. last says that it is the last file of the stream. known is the checksum of the
// last record of this block in the stream's index; nil: the index has another last block.
func (c *checker) block(stream string, b block, last bool, known []byte) (span, error) {
	buf, err := c.read(b)
	if err != nil {
		return span{}, err
	}
	h := newHash(fmt.Sprintf("%s-%d", stream, b.index))
	sp := span{since: added{messages: map[string]uint64{}}}
	var offset int64
	forever := c.opts.Forever(stream)
	for offset < int64(len(buf)) {
		rest := buf[offset:]
		var r record
		ok := false
		if len(rest) >= headerBytes {
			r, ok = parse(h, rest, statedLength(rest))
		}
		if !ok {
			if why := c.notTorn(h, rest, last); why != "" {
				return sp, damaged(b.file, offset, "%s", why)
			}
			sp.torn = &Tail{File: b.file, Offset: offset, Bytes: int64(len(rest))}
			return sp, nil
		}
		sp.top = max(sp.top, r.sequence)
		switch {
		case forever && (r.tombstone || r.erased):
			return sp, damaged(b.file, offset, "message %d of journal %s was deleted", r.sequence, stream)
		case r.tombstone || r.sequence == 0:
		case sp.first == 0:
			sp.first, sp.firstTime = r.sequence, r.time
			sp.last, sp.lastTime = r.sequence, r.time
		case c.gapless(stream) && r.sequence != sp.last+1:
			return sp, damaged(b.file, offset, "journal %s goes from sequence %d to %d", stream, sp.last, r.sequence)
		case r.sequence > sp.last:
			sp.last, sp.lastTime = r.sequence, r.time
		}
		sp.since.take(r)
		if bytes.Equal(r.checksum, known) {
			sp.since, sp.indexed = added{messages: map[string]uint64{}}, true
		}
		offset += r.length
	}
	return sp, nil
}

func (a *added) take(r record) {
	if r.tombstone || r.erased || r.sequence == 0 {
		a.others = true
		return
	}
	a.bytes += uint64(r.length)
	a.messages[string(r.subject)]++
}

// notTorn says why rest can't be the incomplete last record of a killed process. It is "" if rest can be that. No valid
// record is at the beginning of rest.
func (c *checker) notTorn(h *highwayhash.Digest64, rest []byte, last bool) string {
	switch {
	case !last:
		return "a record does not match its checksum, and later files follow"
	case c.opts.Clean:
		return "a record does not match its checksum, although the last stop was in order"
	}
	if len(rest) >= headerBytes {
		if _, whole := parse(h, rest, int64(len(rest))); whole {
			return "the length of the last record was changed"
		}
		if n := statedLength(rest); n >= headerBytes+checksumBytes && n <= int64(len(rest)) && len(bytes.Trim(rest[n-checksumBytes:n], "\x00")) > 0 {
			return "a record does not match its checksum"
		}
	}
	if at := nextRecord(h, rest); at > 0 {
		return fmt.Sprintf("a record does not match its checksum, and there is a valid one %d bytes after it", at)
	}
	return ""
}

// nextRecord returns the offset in rest of a valid record that is not at its beginning, 0 if there is none.
func nextRecord(h *highwayhash.Digest64, rest []byte) int {
	for at := 1; at+headerBytes+checksumBytes <= len(rest); at++ {
		n := statedLength(rest[at:])
		if n > int64(len(rest)-at) || n < headerBytes+checksumBytes {
			continue
		}
		// This is cheaper than the checksum. All subjects are shorter and all sequences smaller.
		if binary.LittleEndian.Uint16(rest[at+20:]) > 512 || binary.LittleEndian.Uint64(rest[at+4:])&^(erasedBit|tombstoneBit) > 1<<48 {
			continue
		}
		if _, ok := parse(h, rest[at:], n); ok {
			return at
		}
	}
	return 0
}

// read reads a whole block into the checker's buffer. A block has a few megabytes at most.
func (c *checker) read(b block) ([]byte, error) {
	file, err := os.Open(b.file)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	if int64(cap(c.buf)) < b.size {
		c.buf = make([]byte, b.size)
	}
	buf := c.buf[:b.size]
	if _, err := io.ReadFull(file, buf); err != nil {
		return nil, fmt.Errorf("read journal %s: %w", b.file, err)
	}
	return buf, nil
}

// KeepTorn copies the torn ends to folder, before the server cuts them off. It returns the names of the copies.
func (r *Report) KeepTorn(folder string) ([]string, error) {
	var kept []string
	for _, s := range r.Streams {
		if s.Torn == nil {
			continue
		}
		name, err := s.keep(folder)
		if err != nil {
			return kept, fmt.Errorf("keep the torn end of %s: %w", s.Name, err)
		}
		kept = append(kept, name)
	}
	return kept, nil
}

// mostTorn bounds the copy of one end. A message has 8 MB at most.
const mostTorn = 16 << 20

func (s Stream) keep(folder string) (string, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	in, err := os.Open(s.Torn.File)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(folder, fmt.Sprintf("%s-%d-*", s.Name, s.Last+1))
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, io.NewSectionReader(in, s.Torn.Offset, min(s.Torn.Bytes, mostTorn)))
	return out.Name(), errors.Join(err, out.Close())
}
