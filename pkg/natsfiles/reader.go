package natsfiles

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"time"

	"github.com/minio/highwayhash"

	"quire.dev/pkg/num"
)

// ErrNoRecord means that the files have no valid record of a message.
var ErrNoRecord = errors.New("the files of the journal do not have the message")

// Message is one message of a stream.
type Message struct {
	Sequence uint64
	Time     time.Time // UTC
	Subject  string
	Data     []byte
	Header   []byte // as sent, with the line of the version; empty: none
}

// Reader reads the messages of a stream one by one. Not safe for concurrent use. It must be closed.
type Reader struct {
	dirs   string // glob pattern of the stream's folder
	stream string

	file   *os.File // nil: the next message must be located
	block  blockFile
	offset int64 // of its next record
	hash   *highwayhash.Digest64
	buf    []byte // a piece of file, from bufAt on
	bufAt  int64
}

const (
	readAhead = 16 << 10
	// keptBuffer bounds the buffer that a reader keeps after a large message.
	keptBuffer = 256 << 10
)

// NewReader returns a Reader of a stream of the server whose StoreDir is folder. It opens nothing.
func NewReader(folder, stream string) *Reader {
	return &Reader{dirs: filepath.Join(folder, "jetstream", "*", "streams", stream), stream: stream}
}

// Close closes the open file, if any.
func (r *Reader) Close() {
	if r.file != nil {
		_ = r.file.Close() // read only
		r.file = nil
	}
}

// Read returns the message with that sequence, which must be stored. Messages must be read in order. The data and the header of a message are
// valid until the next one is read.
func (r *Reader) Read(sequence uint64) (Message, error) {
	for searched := false; ; {
		if r.file == nil {
			if searched {
				return Message{}, ErrNoRecord
			}
			searched = true
			if err := r.find(sequence); err != nil {
				return Message{}, err
			}
		}
		record, err := r.record()
		switch {
		case errors.Is(err, ErrNoRecord):
			// The block is full, or the server has rewritten it.
			if err := r.open(r.block.next()); errors.Is(err, fs.ErrNotExist) {
				r.Close()
			} else if err != nil {
				return Message{}, err
			}
		case err != nil:
			return Message{}, err
		case record.Tombstone || record.Erased || record.Sequence < sequence:
		case record.Sequence > sequence:
			r.Close()
			if searched {
				return Message{}, ErrNoRecord
			}
		default:
			return Message{Sequence: sequence, Time: time.Unix(0, record.Time).UTC(), Subject: string(record.Subject), Data: record.Message, Header: record.Header}, nil
		}
	}
}

// open moves to the beginning of a block.
func (r *Reader) open(b blockFile) error {
	file, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	r.Close()
	r.file, r.block, r.offset = file, b, 0
	r.buf, r.bufAt = r.buf[:0], 0
	r.hash = blockHash(r.stream, b.Index)
	return nil
}

// find opens the block that contains the message: the last one that begins at or before it.
func (r *Reader) find(sequence uint64) error {
	dirs, err := filepath.Glob(r.dirs)
	if err != nil || len(dirs) != 1 {
		return fmt.Errorf("%w: %d folders match %s", errors.Join(ErrNoRecord, err), len(dirs), r.dirs)
	}
	blocks, err := listBlocks(dirs[0])
	if err != nil {
		return err
	}
	for i := len(blocks) - 1; i >= 0; i-- {
		if err := r.open(blocks[i]); err != nil {
			return err
		}
		first, err := r.first()
		if err == nil && first <= sequence {
			r.offset = 0
			return nil
		}
		if err != nil && !errors.Is(err, ErrNoRecord) {
			return err
		}
	}
	r.Close()
	return ErrNoRecord
}

// first returns the sequence of the first message of the block.
func (r *Reader) first() (uint64, error) {
	for {
		record, err := r.record()
		if err != nil || !record.Tombstone && !record.Erased && record.Sequence > 0 {
			return record.Sequence, err
		}
	}
}

// record reads the next record and advances past it. ErrNoRecord if the block has no valid one there. The record is valid until
// the next one is read.
func (r *Reader) record() (record, error) {
	for _, fresh := range []bool{false, true} { // the buffer may be stale
		rest := r.rest()
		if fresh || len(rest) < headerBytes {
			if err := r.fill(readAhead); err != nil {
				return record{}, err
			}
			if rest = r.rest(); len(rest) < headerBytes {
				return record{}, ErrNoRecord
			}
		}
		length := statedLength(rest)
		if length > int64(len(rest)) {
			if info, err := r.file.Stat(); err != nil {
				return record{}, err
			} else if length > info.Size()-r.offset {
				continue
			}
			if err := r.fill(length); err != nil {
				return record{}, err
			}
			if rest = r.rest(); length > int64(len(rest)) {
				continue
			}
		}
		if record, ok := parse(r.hash, rest, length); ok {
			r.offset += length
			return record, nil
		}
	}
	return record{}, ErrNoRecord
}

// rest returns the buffered bytes from the offset on.
func (r *Reader) rest() []byte {
	if skip := r.offset - r.bufAt; skip >= 0 && skip < int64(len(r.buf)) {
		return r.buf[skip:]
	}
	return nil
}

// fill reads ahead from the offset on, at least least bytes if the file has them.
func (r *Reader) fill(least int64) error {
	if room := int64(cap(r.buf)); room < least || room > keptBuffer && least <= keptBuffer {
		r.buf = make([]byte, max(readAhead, 1<<bits.Len64(num.Uint64(least-1))))
	}
	n, err := r.file.ReadAt(r.buf[:cap(r.buf)], r.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		r.buf = r.buf[:0]
		return err
	}
	r.buf, r.bufAt = r.buf[:n], r.offset
	return nil
}
