package natsfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/minio/highwayhash"

	"quire.dev/pkg/num"
)

// span is the range of sequences in one block.
type span struct {
	first, last uint64 // of its messages
	top         uint64 // largest sequence in any record
	torn        *Tail
	unread      bool // its records were not read

	deleted   uint64 // highest sequence that a record says is deleted, in a stream that keeps every message; 0: none
	deletedAt int64  // offset of that record

	firstTime, lastTime int64 // of first and last, in Unix nanoseconds
	since               added // records since its beginning, or since the last one named by the index
	indexed             bool  // it contains that record
}

// added summarizes the records after another one.
type added struct {
	bytes    uint64            // of messages
	messages map[string]uint64 // by subject
	others   bool              // some records are no messages, or of deleted ones
}

// block reads the records of one file. last marks the last file of the stream. known is the checksum of this block's last
// record in the index; nil unless this is the index's last block.
func (c *checker) block(stream string, b blockFile, last bool, known []byte) (span, error) {
	buf, err := c.read(b)
	if err != nil {
		return span{}, err
	}
	h := blockHash(stream, b.Index)
	sp := span{since: added{messages: map[string]uint64{}}}
	var offset int64
	forever, described := c.opts.Forever(stream), c.described[stream]
	subjects := described.Subjects
	for offset < int64(len(buf)) {
		rest := buf[offset:]
		var r record
		ok := false
		if len(rest) >= headerBytes {
			r, ok = parse(h, rest, statedLength(rest))
		}
		if !ok {
			if why := c.notTorn(h, rest, last); why != "" {
				return sp, damageError(b.Path, offset, "%s", why)
			}
			sp.torn = &Tail{File: b.Path, Offset: offset, Bytes: int64(len(rest))}
			return sp, nil
		}
		sp.top = max(sp.top, r.Sequence)
		switch {
		case forever && r.Tombstone:
			if r.Sequence > sp.deleted {
				sp.deleted, sp.deletedAt = r.Sequence, offset
			}
		case forever && r.Erased:
			return sp, damageError(b.Path, offset, "message %d of journal %s was deleted", r.Sequence, stream)
		case r.Tombstone || r.Sequence == 0:
		case !r.Erased && len(subjects) > 0 && !slices.Contains(subjects, string(r.Subject)):
			return sp, damageError(b.Path, offset, "message %d of journal %s has the subject %q", r.Sequence, stream, r.Subject)
		case sp.first == 0:
			sp.first, sp.firstTime = r.Sequence, r.Time
			sp.last, sp.lastTime = r.Sequence, r.Time
		case c.gapless(stream) && r.Sequence != sp.last+1:
			return sp, damageError(b.Path, offset, "journal %s goes from sequence %d to %d", stream, sp.last, r.Sequence)
		case r.Sequence > sp.last:
			sp.last, sp.lastTime = r.Sequence, r.Time
		}
		sp.since.take(r)
		if bytes.Equal(r.Checksum, known) {
			sp.since, sp.indexed = added{messages: map[string]uint64{}}, true
		}
		offset += r.Length
	}
	return sp, nil
}

func (a *added) take(r record) {
	if r.Tombstone || r.Erased || r.Sequence == 0 {
		a.others = true
		return
	}
	a.bytes += num.Uint64(r.Length)
	a.messages[string(r.Subject)]++
}

// notTorn explains why rest can't be the incomplete last record of a killed process, or returns "" if it can. rest does not
// begin with a valid record.
func (c *checker) notTorn(h *highwayhash.Digest64, rest []byte, last bool) string {
	switch {
	case !last:
		return "a record does not match its checksum, and later files follow"
	case c.opts.Clean:
		return "a record does not match its checksum, although the last shutdown was clean"
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

// nextRecord returns the offset of the next valid record in rest, not counting its beginning, or 0.
func nextRecord(h *highwayhash.Digest64, rest []byte) int {
	for at := 1; at+headerBytes+checksumBytes <= len(rest); at++ {
		n := statedLength(rest[at:])
		if n > int64(len(rest)-at) || n < headerBytes+checksumBytes {
			continue
		}
		// This is cheaper than the checksum. All subjects are shorter and all sequences smaller.
		if binary.LittleEndian.Uint16(rest[at+20:]) > 512 || statedSequence(rest[at:]) > 1<<48 {
			continue
		}
		if _, ok := parse(h, rest[at:], n); ok {
			return at
		}
	}
	return 0
}

// read reads a whole block into the checker's buffer. A block has a few megabytes at most.
func (c *checker) read(b blockFile) ([]byte, error) {
	file, err := os.Open(b.Path)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer file.Close()
	if int64(cap(c.buf)) < b.Size {
		c.buf = make([]byte, b.Size)
	}
	buf := c.buf[:b.Size]
	if _, err := io.ReadFull(file, buf); err != nil {
		return nil, fmt.Errorf("read journal %s: %w", b.Path, err)
	}
	return buf, nil
}

// KeepTorn copies the torn ends to folder, before the server truncates them. It returns the names of the copies.
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

// maxTorn bounds the copy of one torn end. A message has 8 MB at most.
const maxTorn = 16 << 20

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
	_, err = io.Copy(out, io.NewSectionReader(in, s.Torn.Offset, min(s.Torn.Bytes, maxTorn)))
	return out.Name(), errors.Join(err, out.Close())
}
