// Package proof has the forms in which Quire proves a bill to people who do not trust it. docs/proof.md specifies them.
package proof

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/protobuf/encoding/protowire"

	"quire.dev/pkg/num"
)

// ErrEntry: data is not an entry of the log.
var ErrEntry = errors.New("not an entry of the log")

// Kinds of entries: their first byte.
const (
	kindMessage = 1
	kindRewind  = 2
)

// Message is an entry of the log: the digest of one message of a billing journal. It says nothing of what is in the message.
type Message struct {
	Partition int
	Sequence  uint64
	Time      time.Time // when the journal stored it, UTC
	Subject   string
	Size      uint32            // bytes of the data
	Data      [sha256.Size]byte // SHA-256 of the data
	// Items is the root over the message's fields, so that one of them can be shown without the others: see Items.
	Items tlog.Hash
}

// Rewind is an entry of the log: messages of a journal that the log has are lost, and others take their sequences. It follows the
// restore of an older backup, which an admin has accepted.
type Rewind struct {
	Partition int
	Sequence  uint64 // of the last message that is still as the log has it
}

// fixed is the size of a Message before its subject.
const fixed = 1 + 2 + 8 + 8 + 4 + sha256.Size + tlog.HashSize

// Digest returns the entry of a message.
func Digest(partition int, sequence uint64, stored time.Time, subject string, data []byte) Message {
	return Message{
		Partition: partition, Sequence: sequence, Time: stored, Subject: subject,
		Size: num.Uint32(len(data)),
		Data: sha256.Sum256(data), Items: root(items(data)),
	}
}

// Encode returns the bytes of the entry.
func (m Message) Encode() []byte {
	data := make([]byte, 0, fixed+len(m.Subject))
	data = header(data, kindMessage, m.Partition, m.Sequence)
	data = binary.BigEndian.AppendUint64(data, num.Bits(m.Time.UnixNano()))
	data = binary.BigEndian.AppendUint32(data, m.Size)
	data = append(data, m.Data[:]...)
	data = append(data, m.Items[:]...)
	return append(data, m.Subject...)
}

// Encode returns the bytes of the entry.
func (r Rewind) Encode() []byte { return header(nil, kindRewind, r.Partition, r.Sequence) }

func header(data []byte, kind byte, partition int, sequence uint64) []byte {
	data = binary.BigEndian.AppendUint16(append(data, kind), num.Uint16(partition))
	return binary.BigEndian.AppendUint64(data, sequence)
}

// Decode returns the Message or Rewind with these bytes, or ErrEntry.
func Decode(data []byte) (any, error) {
	const head = 1 + 2 + 8
	if len(data) < head {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrEntry, len(data))
	}
	partition, sequence := int(binary.BigEndian.Uint16(data[1:])), binary.BigEndian.Uint64(data[3:])
	switch {
	case data[0] == kindRewind && len(data) == head:
		return Rewind{Partition: partition, Sequence: sequence}, nil
	case data[0] == kindMessage && len(data) >= fixed:
	default:
		return nil, fmt.Errorf("%w: it has kind %d and %d bytes", ErrEntry, data[0], len(data))
	}
	m := Message{Partition: partition, Sequence: sequence, Subject: string(data[fixed:])}
	m.Time = time.Unix(0, num.FromBits(binary.BigEndian.Uint64(data[head:]))).UTC()
	m.Size = binary.BigEndian.Uint32(data[head+8:])
	copy(m.Data[:], data[head+12:])
	copy(m.Items[:], data[head+12+sha256.Size:])
	return m, nil
}

// items returns the hashes of the items of a message: its Protobuf fields in the order in which they stand, each with its tag and
// length, so that the items together are the data. Data that is not a sequence of fields is one item.
func items(data []byte) []tlog.Hash {
	var hashes []tlog.Hash
	for rest := data; len(rest) > 0; {
		_, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return []tlog.Hash{tlog.RecordHash(data)}
		}
		hashes, rest = append(hashes, tlog.RecordHash(rest[:n])), rest[n:]
	}
	if len(hashes) == 0 {
		return []tlog.Hash{tlog.RecordHash(nil)}
	}
	return hashes
}

// root is the root of the tree of RFC 6962 over the hashes of its leaves, of which there is at least one. It overwrites them.
func root(hashes []tlog.Hash) tlog.Hash {
	for len(hashes) > 1 {
		above := hashes[:0]
		for i := 0; i < len(hashes); i += 2 {
			if i+1 < len(hashes) {
				above = append(above, tlog.NodeHash(hashes[i], hashes[i+1]))
			} else {
				above = append(above, hashes[i]) // it has no sibling at this height
			}
		}
		hashes = above
	}
	return hashes[0]
}
