package natsfiles

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// encode makes a record as the server does.
func encode(sequence uint64, subject, headers, message string) []byte {
	h := blockHash("S", 1)
	length := headerBytes + len(subject) + len(message) + checksumBytes
	if headers != "" {
		length += 4 + len(headers)
	}
	b := binary.LittleEndian.AppendUint32(nil, uint32(length))
	if headers != "" {
		b[3] |= 0x80
	}
	b = binary.LittleEndian.AppendUint64(b, sequence)
	b = binary.LittleEndian.AppendUint64(b, 1_000_000_007)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(subject)))
	b = append(b, subject...)
	if headers != "" {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(headers)))
		b = append(b, headers...)
	}
	b = append(b, message...)
	return append(b, checksum(h, b[4:20], []byte(subject), []byte(headers), []byte(message))...)
}

func TestParseReadsWhatTheServerWrites(t *testing.T) {
	for _, headers := range []string{"", "NATS/1.0\r\nA: b\r\n\r\n"} {
		data := encode(7, "a.b", headers, "message")
		r, ok := parse(blockHash("S", 1), append(data, "more"...), statedLength(data))
		if !ok || r.Length != int64(len(data)) || r.Sequence != 7 || r.Time != 1_000_000_007 || string(r.Subject) != "a.b" ||
			string(r.Message) != "message" || r.Erased || r.Tombstone {
			t.Errorf("headers %q: %+v, %v", headers, r, ok)
		}
	}
	tombstone := encode(7|1<<62, "", "", "")
	if r, ok := parse(blockHash("S", 1), tombstone, int64(len(tombstone))); !ok || !r.Tombstone || r.Sequence != 7 {
		t.Errorf("a tombstone: %+v, %v", r, ok)
	}
	if _, ok := parse(blockHash("S", 2), tombstone, int64(len(tombstone))); ok {
		t.Error("the record of another block is taken")
	}
}

// FuzzParse: nothing that a file may have is a panic, and no changed byte of what the checksum is over goes unnoticed.
func FuzzParse(f *testing.F) {
	whole := encode(7, "a.b", "", "message")
	f.Add(whole, uint16(0))
	f.Add(whole[:20], uint16(3))
	f.Add(encode(7|1<<63, "a", "", ""), uint16(21))
	f.Fuzz(func(t *testing.T, data []byte, at uint16) {
		h := blockHash("S", 1)
		parse(h, data, int64(len(data)))
		if len(data) >= headerBytes {
			parse(h, data, statedLength(data))
		}
		changed := bytes.Clone(whole)
		if at = 4 + at%uint16(len(changed)-4); at == 20 || at == 21 {
			return // the length of the subject: see TestNoFlippedBitIsTakenForAJournal
		}
		changed[at] ^= 1
		if r, ok := parse(h, changed, int64(len(changed))); ok {
			t.Errorf("byte %d was changed: %+v", at, r)
		}
	})
}
