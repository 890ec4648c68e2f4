package streamcheck

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/minio/highwayhash"
)

// A record: length(4, the top bit: has headers), sequence(8, top bits: erased, tombstone), time(8),
// length of the subject(2), subject, [length of the headers(4), headers,] message, checksum(8).
// The checksum covers sequence, time, subject, headers and message: not the lengths.
const (
	headerBytes   = 22
	checksumBytes = 8
	headersBit    = 1 << 31
	erasedBit     = 1 << 63
	tombstoneBit  = 1 << 62
	mostRecord    = 32 << 20
)

// span is what one block holds.
type span struct {
	first, last uint64 // of its messages
	top         uint64 // largest sequence that any record names
	torn        *Tail
	unread      bool
}

// record is one parsed record.
type record struct {
	length    int64
	sequence  uint64
	erased    bool
	tombstone bool
}

// parse reads the record that buf begins with, taking length as its length. Not ok: it is none.
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
		erased:    sequence&erasedBit != 0,
		tombstone: sequence&tombstoneBit != 0,
	}, true
}

// sum is the checksum of the parts, one after the other.
func sum(h *highwayhash.Digest64, parts ...[]byte) []byte {
	for _, part := range parts {
		_, _ = h.Write(part) // a hash takes everything
	}
	return h.Sum(nil)
}

func statedLength(buf []byte) int64 {
	return int64(binary.LittleEndian.Uint32(buf) &^ headersBit)
}

// block walks one file.
func (c *checker) block(stream string, b block, last bool) (span, error) {
	buf, err := c.read(b)
	if err != nil {
		return span{}, err
	}
	h := newHash(fmt.Sprintf("%s-%d", stream, b.index))
	var sp span
	var offset int64
	forever := c.opts.Forever != nil && c.opts.Forever(stream)
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
			sp.first, sp.last = r.sequence, r.sequence
		case c.gapless(stream) && r.sequence != sp.last+1:
			return sp, damaged(b.file, offset, "journal %s goes from sequence %d to %d", stream, sp.last, r.sequence)
		default:
			sp.last = max(sp.last, r.sequence)
		}
		offset += r.length
	}
	return sp, nil
}

// notTorn says why rest, which begins with no whole record, can't be the unacknowledged write of a
// killed process; "" where it can.
func (c *checker) notTorn(h *highwayhash.Digest64, rest []byte, last bool) string {
	switch {
	case !last:
		return "a record does not match its checksum, and later files follow"
	case c.opts.Clean:
		return "a record does not match its checksum, though the last stop was an orderly one"
	}
	if len(rest) >= headerBytes {
		if _, whole := parse(h, rest, int64(len(rest))); whole {
			return "the last record's length is changed"
		}
		if n := statedLength(rest); n >= headerBytes+checksumBytes && n <= int64(len(rest)) && !zero(rest[n-checksumBytes:n]) {
			return "a record does not match its checksum"
		}
	}
	if at := nextRecord(h, rest); at > 0 {
		return fmt.Sprintf("a record does not match its checksum, and %d bytes on there is a whole one", at)
	}
	return ""
}

// nextRecord finds a whole record behind the beginning of rest; 0: none.
func nextRecord(h *highwayhash.Digest64, rest []byte) int {
	for at := 1; at+headerBytes+checksumBytes <= len(rest); at++ {
		n := statedLength(rest[at:])
		if n > int64(len(rest)-at) || n < headerBytes+checksumBytes {
			continue
		}
		// Cheaper than the checksum: a subject of ours is shorter than this, and a sequence far smaller.
		if binary.LittleEndian.Uint16(rest[at+20:]) > 512 || binary.LittleEndian.Uint64(rest[at+4:])&^(erasedBit|tombstoneBit) > 1<<48 {
			continue
		}
		if _, ok := parse(h, rest[at:], n); ok {
			return at
		}
	}
	return 0
}

func zero(b []byte) bool {
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}

// read reads a whole block, which the server bounds to a few megabytes, into the checker's buffer.
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

// KeepTorn copies the torn ends into folder, before the server cuts them off. It returns the copies.
func (r *Report) KeepTorn(folder string) ([]string, error) {
	var kept []string
	for _, s := range r.Streams {
		if s.Torn == nil {
			continue
		}
		name, err := s.keep(folder)
		if err != nil {
			return kept, err
		}
		kept = append(kept, name)
	}
	return kept, nil
}

// mostTorn bounds what is kept of one end: a publish is at most 8 MB.
const mostTorn = 16 << 20

func (s Stream) keep(folder string) (string, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("keep a torn end: %w", err)
	}
	in, err := os.Open(s.Torn.File)
	if err != nil {
		return "", fmt.Errorf("keep a torn end: %w", err)
	}
	defer in.Close()
	out, err := os.CreateTemp(folder, fmt.Sprintf("%s-%d-*", s.Name, s.Last+1))
	if err != nil {
		return "", fmt.Errorf("keep a torn end: %w", err)
	}
	defer out.Close()
	tail := io.NewSectionReader(in, s.Torn.Offset, min(s.Torn.Bytes, mostTorn))
	if _, err := io.Copy(out, tail); err != nil {
		return "", fmt.Errorf("keep a torn end: %w", err)
	}
	return out.Name(), nil
}
