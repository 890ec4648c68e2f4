package recent

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// Image is a frozen copy of a log.
type Image struct {
	chunks []*chunk
	oldest Ref
	count  int
}

// Image freezes the log, in time nearly independent of its size. The log may change while the image is written.
func (l *Log) Image() *Image {
	for i := range l.slab.shown {
		l.slab.shown[i] = true
	}
	return &Image{chunks: slices.Clone(l.slab.chunks), oldest: l.oldest, count: l.count}
}

// Len is the number of records.
func (i *Image) Len() int { return i.count }

const (
	// version of the encoding, its first byte. Others are ErrImage.
	version = 1
	// most bounds the size of an encoded record.
	most = 16 + 8 + 4*binary.MaxVarintLen64 + binary.MaxVarintLen32 + 4
)

// ErrImage: the input is not an encoded Image of this version.
var ErrImage = errors.New("image of recent requests is not readable")

// Encode writes the image: the version, the number of records, and the records, oldest first. The fields of a record are its
// request, its account, its time relative to the previous record, cost, remaining, key, and four bytes.
func (i *Image) Encode(to io.Writer) error {
	buffer := make([]byte, 0, 64<<10)
	buffer = binary.AppendUvarint(append(buffer, version), uint64(i.count))
	last := int64(0)
	for ref := i.oldest; ref != 0; {
		e := &i.chunks[ref/chunkEntries][ref%chunkEntries]
		if cap(buffer)-len(buffer) < most {
			if _, err := to.Write(buffer); err != nil {
				return err
			}
			buffer = buffer[:0]
		}
		buffer = append(buffer, e.Request[:]...)
		buffer = binary.LittleEndian.AppendUint64(buffer, e.account)
		buffer = binary.AppendVarint(buffer, e.TimeMillis-last)
		buffer = binary.AppendUvarint(buffer, e.CostMicros)
		buffer = binary.AppendVarint(buffer, e.Remaining)
		buffer = binary.AppendUvarint(buffer, uint64(e.Key))
		buffer = append(buffer, e.QuotaKey, e.Decision, e.Charge, byte(e.Status))
		last, ref = e.TimeMillis, e.after
	}
	_, err := to.Write(buffer)
	return err
}

// Load adds the records of an encoded image to an empty log. After an error the log is empty.
func (l *Log) Load(from io.Reader) error {
	err := l.load(bufio.NewReaderSize(from, 64<<10))
	if err != nil {
		*l = *New(l.budget)
	}
	return err
}

func (l *Log) load(in *bufio.Reader) error {
	v, err1 := in.ReadByte()
	n, err2 := binary.ReadUvarint(in)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("%w: %w", ErrImage, err)
	}
	if v != version {
		return fmt.Errorf("%w: it has version %d", ErrImage, v)
	}
	last := int64(0)
	for range n {
		account, r, err := readRecord(in, last)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrImage, err)
		}
		last = r.TimeMillis
		l.expect(r, l.push(account, r))
	}
	_, err := in.ReadByte()
	switch {
	case err == nil:
		return fmt.Errorf("%w: it has more than %d records", ErrImage, n)
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

func readRecord(in *bufio.Reader, last int64) (account uint64, r Record, err error) {
	var fixed [24]byte
	if _, err := io.ReadFull(in, fixed[:]); err != nil {
		return 0, r, err
	}
	r.Request, account = event.RequestID(fixed[:16]), binary.LittleEndian.Uint64(fixed[16:])
	after, err1 := binary.ReadVarint(in)
	cost, err2 := binary.ReadUvarint(in)
	remaining, err3 := binary.ReadVarint(in)
	key, err4 := binary.ReadUvarint(in)
	var small [4]byte
	_, err5 := io.ReadFull(in, small[:])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return 0, r, err
	}
	r.TimeMillis, r.CostMicros, r.Remaining, r.Key = last+after, cost, remaining, uint32(key)
	r.QuotaKey, r.Decision, r.Charge, r.Status = small[0], small[1], small[2], Status(small[3])
	if !plan.QuotaKey(r.QuotaKey).Valid() || r.Status >= statuses {
		return 0, r, fmt.Errorf("quota key %d, status %d", small[0], small[3])
	}
	return account, r, nil
}
