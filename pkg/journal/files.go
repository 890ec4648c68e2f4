package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/minio/highwayhash"
	"github.com/nats-io/nats.go"

	"quire.dev/pkg/journal/block"
	"quire.dev/pkg/wait"
)

// Files are the files of a NATS server in this process. A follower reads the messages there, in place of a consumer that delivers
// them: a server keeps each block that consumers read in memory for ten seconds, which is 1.2 KB for each creation of 1 KiB.
//
// A message is read once the server has said that it is stored: to an appender, or in a State. Safe for concurrent use.
type Files struct {
	folder string // of the server

	mu     sync.Mutex
	stored map[string]*wait.Position // by stream
}

// NewFiles names the folder of the server. Nothing is opened.
func NewFiles(folder string) *Files {
	return &Files{folder: folder, stored: map[string]*wait.Position{}}
}

// FilesOf returns the files of the server that nc is connected to, nil unless that server is in this process: then the
// provider of the connection (nats.InProcessServer) has a method Files.
func FilesOf(nc *nats.Conn) *Files {
	if provider, ok := nc.Opts.InProcessServer.(interface{ Files() *Files }); ok {
		return provider.Files()
	}
	return nil
}

// storedIn is the last message of a stream that is known to be stored.
func (f *Files) storedIn(stream string) *wait.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.position(stream)
}

// position is storedIn for a caller that holds mu.
func (f *Files) position(stream string) *wait.Position {
	p := f.stored[stream]
	if p == nil {
		p = new(wait.Position)
		f.stored[stream] = p
	}
	return p
}

// learn says that the stream has stored all messages up to that sequence. It does nothing for nil files.
func (f *Files) learn(stream string, sequence uint64) {
	if f == nil || stream == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.position(stream); sequence > p.Get() {
		p.Set(sequence)
	}
}

// lookAgain is how often a follower asks for the end of its stream where nobody has told it of a message.
const lookAgain = time.Second

// readFiles follows the stream in its files until something ends it.
func (f *follower) readFiles(ctx context.Context, status <-chan nats.Status) error {
	j := f.journal
	stored := j.files.storedIn(j.stream)
	reader := &blockReader{dirs: filepath.Join(j.files.folder, "jetstream", "*", "streams", j.stream), stream: j.stream}
	defer reader.close()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		next := stored.Next()
		for last := stored.Get(); f.next <= last; {
			if err := ctx.Err(); err != nil {
				return err
			}
			m, err := reader.read(f.next)
			if err != nil {
				f.unreadable = true // a consumer tells whether the message is gone
				return reattach(fmt.Errorf("read message %d of %s: %w", f.next, j.stream, err))
			}
			if err := f.handle(ctx, m); err != nil {
				return err
			}
			if err := f.handled(); err != nil {
				return err
			}
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case s := <-status:
			return j.renewed(s)
		case <-look.C:
			asking, cancel := context.WithTimeout(ctx, f.patience.Next())
			state, err := j.State(asking) // it tells stored
			cancel()
			if err == nil && state.Last+1 < f.next {
				err = ErrTruncated
			}
			if err != nil {
				return reattach(err)
			}
			f.patience.Reset()
		}
	}
}

// errNoRecord says that the files have no valid record of a message.
var errNoRecord = errors.New("the files of the journal do not have the message")

// blockReader reads the messages of a stream one after the other.
type blockReader struct {
	dirs   string // pattern that the folder of the stream matches
	stream string

	file   *os.File // nil: the next message is to be looked for
	block  block.File
	offset int64 // of its next record
	hash   *highwayhash.Digest64
	buf    []byte // a piece of file, from bufAt on
	bufAt  int64
}

const (
	readAhead = 16 << 10
	// keptBuffer bounds the memory that a reader keeps after a large message.
	keptBuffer = 256 << 10
)

func (r *blockReader) close() {
	if r.file != nil {
		_ = r.file.Close() // it was only read
		r.file = nil
	}
}

// read returns the message of that sequence, which is stored. Messages are to be read in order. The data of a message is good
// until the next one is read.
func (r *blockReader) read(sequence uint64) (Message, error) {
	for searched := false; ; {
		if r.file == nil {
			if searched {
				return Message{}, errNoRecord
			}
			searched = true
			if err := r.find(sequence); err != nil {
				return Message{}, err
			}
		}
		record, err := r.record()
		switch {
		case errors.Is(err, errNoRecord):
			// The block is full, or the server has written it anew.
			if err := r.open(r.block.Next()); errors.Is(err, fs.ErrNotExist) {
				r.close()
			} else if err != nil {
				return Message{}, err
			}
		case err != nil:
			return Message{}, err
		case record.Tombstone || record.Erased || record.Sequence < sequence:
		case record.Sequence > sequence:
			r.close()
			if searched {
				return Message{}, errNoRecord
			}
		default:
			return Message{
				Sequence: sequence, Time: time.Unix(0, record.Time).UTC(), Subject: string(record.Subject), Data: record.Message,
			}, nil
		}
	}
}

// open goes to the beginning of a block.
func (r *blockReader) open(b block.File) error {
	file, err := os.Open(b.Path)
	if err != nil {
		return err
	}
	r.close()
	r.file, r.block, r.offset = file, b, 0
	r.buf, r.bufAt = r.buf[:0], 0
	r.hash = block.HashOf(r.stream, b.Index)
	return nil
}

// find opens the block that has the message: the last one that begins with it or with an earlier one.
func (r *blockReader) find(sequence uint64) error {
	dirs, err := filepath.Glob(r.dirs)
	if err != nil || len(dirs) != 1 {
		return fmt.Errorf("%w: %d folders match %s", errors.Join(errNoRecord, err), len(dirs), r.dirs)
	}
	blocks, err := block.List(dirs[0])
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
		if err != nil && !errors.Is(err, errNoRecord) {
			return err
		}
	}
	r.close()
	return errNoRecord
}

// first is the sequence of the first message of the block.
func (r *blockReader) first() (uint64, error) {
	for {
		record, err := r.record()
		if err != nil || !record.Tombstone && !record.Erased && record.Sequence > 0 {
			return record.Sequence, err
		}
	}
}

// record reads the next record and goes behind it. errNoRecord where the block has no valid one there. The record is good until
// the next one is read.
func (r *blockReader) record() (block.Record, error) {
	for _, fresh := range []bool{false, true} { // what was read ahead may have been written since
		rest := r.rest()
		if fresh || len(rest) < block.HeaderBytes {
			if err := r.fill(readAhead); err != nil {
				return block.Record{}, err
			}
			if rest = r.rest(); len(rest) < block.HeaderBytes {
				return block.Record{}, errNoRecord
			}
		}
		length := block.StatedLength(rest)
		if length > int64(len(rest)) {
			if info, err := r.file.Stat(); err != nil {
				return block.Record{}, err
			} else if length > info.Size()-r.offset {
				continue
			}
			if err := r.fill(length); err != nil {
				return block.Record{}, err
			}
			if rest = r.rest(); length > int64(len(rest)) {
				continue
			}
		}
		if record, ok := block.Parse(r.hash, rest, length); ok {
			r.offset += length
			return record, nil
		}
	}
	return block.Record{}, errNoRecord
}

// rest is what was read ahead from the offset on.
func (r *blockReader) rest() []byte {
	if skip := r.offset - r.bufAt; skip >= 0 && skip < int64(len(r.buf)) {
		return r.buf[skip:]
	}
	return nil
}

// fill reads ahead from the offset on, least bytes where there are so many.
func (r *blockReader) fill(least int64) error {
	if room := int64(cap(r.buf)); room < least || room > keptBuffer && least <= keptBuffer {
		r.buf = make([]byte, max(readAhead, 1<<bits.Len64(uint64(least-1))))
	}
	n, err := r.file.ReadAt(r.buf[:cap(r.buf)], r.offset)
	if err != nil && !errors.Is(err, io.EOF) {
		r.buf = r.buf[:0]
		return err
	}
	r.buf, r.bufAt = r.buf[:n], r.offset
	return nil
}
