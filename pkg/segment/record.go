package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"quire.dev/pkg/num"
)

// recordHeadBytes is the length of a record before its subject: sequence, time, length of the subject, length of the data.
const recordHeadBytes = 8 + 8 + 2 + 4

var errRecord = errors.New("records are malformed")

func recordBytes(m Message) int { return recordHeadBytes + len(m.Subject) + len(m.Data) }

func appendRecord(b []byte, m Message) []byte {
	b = binary.BigEndian.AppendUint64(b, m.Sequence)
	b = binary.BigEndian.AppendUint64(b, num.Bits(m.TimeNanos))
	b = binary.BigEndian.AppendUint16(b, num.Uint16(len(m.Subject)))
	b = binary.BigEndian.AppendUint32(b, num.Uint32(len(m.Data)))
	b = append(b, m.Subject...)
	return append(b, m.Data...)
}

// cutRecord returns the first of the records. Its data is a part of b.
func cutRecord(b []byte, subjects *interned) (m Message, rest []byte, err error) {
	if len(b) < recordHeadBytes {
		return m, nil, fmt.Errorf("%w: %d bytes are left", errRecord, len(b))
	}
	subject, data := int(binary.BigEndian.Uint16(b[16:])), uint64(binary.BigEndian.Uint32(b[18:]))
	if data > maxDataBytes || len(b) < recordHeadBytes+subject+int(data) {
		return m, nil, fmt.Errorf("%w: one of %d bytes, of %d", errRecord, uint64(recordHeadBytes+subject)+data, len(b))
	}
	nanos := binary.BigEndian.Uint64(b[8:])
	if nanos > math.MaxInt64 {
		return m, nil, fmt.Errorf("%w: a time before 1970", errRecord)
	}
	end := recordHeadBytes + subject + int(data)
	m = Message{
		Sequence: binary.BigEndian.Uint64(b), TimeNanos: int64(nanos), Subject: subjects.of(b[recordHeadBytes : recordHeadBytes+subject]),
		Data: b[recordHeadBytes+subject : end : end],
	}
	return m, b[end:], nil
}

// interned saves an allocation per message: few subjects follow each other.
type interned struct {
	last [8]string
	next int
}

func (i *interned) of(b []byte) string {
	for _, s := range i.last {
		if s == string(b) {
			return s
		}
	}
	s := string(b)
	i.last[i.next%len(i.last)] = s
	i.next++
	return s
}
