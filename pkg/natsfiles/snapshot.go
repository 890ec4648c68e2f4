package natsfiles

import (
	"archive/tar"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/s2"

	"quire.dev/pkg/num"
)

// snapshotBlock is the size at which a snapshot begins the next block, the same as the server's block size.
const snapshotBlock = 8 << 20

// Snapshot is a stream to be restored by a server.
type Snapshot struct {
	Stream string
	Meta   []byte // the stream's description in JSON: its configuration, and its creation time as "Created"
	Last   uint64 // sequence of the last message before the first one written
	Time   time.Time
}

// WriteTo writes the snapshot with the messages that next returns, until it returns false or fails. Their sequences must follow
// one another. Without any message, the stream is empty and continues after Last.
//
// A server restores the snapshot with the sequences and times of the messages, which no other way of storing them preserves. It
// holds one block in memory.
func (s Snapshot) WriteTo(w io.Writer, next func() (Message, bool, error)) error {
	out := s2.NewWriter(w)
	files := tar.NewWriter(out)
	write := func(name string, data []byte) error {
		header := &tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: s.Time, Format: tar.FormatPAX}
		if err := files.WriteHeader(header); err != nil {
			return err
		}
		_, err := files.Write(data)
		return err
	}
	if err := write("meta.inf", s.Meta); err != nil {
		return err
	}
	if err := write("meta.sum", []byte(hex.EncodeToString(checksum(nameHash(s.Stream), s.Meta)))); err != nil {
		return err
	}
	var block []byte
	index, last, any := uint32(1), s.Last, false
	flush := func() error {
		err := write(fmt.Sprintf("%s/%d%s", messagesFolder, index, extension), block)
		index, block = index+1, block[:0]
		return err
	}
	for {
		m, ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if any && m.Sequence != last+1 {
			return fmt.Errorf("write a snapshot of %s: message %d follows %d", s.Stream, m.Sequence, last)
		}
		any, last = true, m.Sequence
		block = AppendRecord(block, s.Stream, index, m)
		if len(block) >= snapshotBlock {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if !any && s.Last > 0 {
		block = AppendRecord(block, s.Stream, index, Message{Sequence: s.Last | tombstoneBit, Time: s.Time})
	}
	if len(block) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	if err := files.Close(); err != nil {
		return err
	}
	return out.Close()
}

// AppendRecord appends a message's record, without headers, to a block of a stream.
func AppendRecord(block []byte, stream string, index uint32, m Message) []byte {
	at := len(block)
	block = binary.LittleEndian.AppendUint32(block, num.Uint32(headerBytes+len(m.Subject)+len(m.Data)+checksumBytes))
	block = binary.LittleEndian.AppendUint64(block, m.Sequence)
	block = binary.LittleEndian.AppendUint64(block, uint64(m.Time.UnixNano()))
	block = binary.LittleEndian.AppendUint16(block, num.Uint16(len(m.Subject)))
	block = append(block, m.Subject...)
	block = append(block, m.Data...)
	return sum(blockHash(stream, index), block, block[at+4:at+20], []byte(m.Subject), m.Data)
}
