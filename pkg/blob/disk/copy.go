package disk

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"quire.dev/pkg/blob/internal/source"
)

const (
	// pieceBytes is the size of a Put's reads.
	pieceBytes = 128 << 10
	// maxSpares bounds the extra pieces of all Puts together: 16 MiB.
	maxSpares = 128
	// writeAhead and hashAhead bound the pieces a Put reads ahead of a stage. Hashing is the slowest: it finishes while the
	// file is synced.
	writeAhead = 8
	hashAhead  = 32
	// writebackBytes are written before the kernel is asked to flush them, which leaves little for the final fsync.
	writebackBytes = 4 << 20
)

// piece is a part of a blob on its way into its file.
type piece struct {
	bytes [pieceBytes]byte
	n     int
	users atomic.Int32 // stages still using it
	spare bool         // it counts against maxSpares
}

// pieces is the memory of all Puts. A Put owns one piece, and takes spare ones while its reader is faster than its stages: a
// slow client holds no more than one or two.
type pieces struct {
	pool   sync.Pool     // of *piece
	spares chan struct{} // one element per spare piece in use
}

func newPieces() *pieces {
	return &pieces{pool: sync.Pool{New: func() any { return new(piece) }}, spares: make(chan struct{}, maxSpares)}
}

func (s *pieces) take() *piece  { return s.pool.Get().(*piece) }
func (s *pieces) give(p *piece) { s.pool.Put(p) }

// copyTo writes the content of from to the file, syncs it, and writes the same bytes to sum unless that is nil. Content larger
// than a piece is read, written and hashed by one goroutine each, since each stage takes about as long as the disk; meanwhile
// runs beside them. A reader's error is from.Err.
func (s *pieces) copyTo(file *os.File, from *source.Reader, sum io.Writer, meanwhile func() error) error {
	first := s.take()
	more, err := first.fill(from)
	if err == nil && more {
		return s.pipeline(first, file, from, sum, meanwhile) // which returns first to the pool
	}
	defer s.give(first)
	if err != nil {
		return err
	}
	if sum != nil {
		_, _ = sum.Write(first.bytes[:first.n]) // a hash never fails
	}
	if _, err = file.Write(first.bytes[:first.n]); err != nil {
		return err
	}
	return file.Sync()
}

// fill reads into the piece and reports whether there may be more to read.
func (p *piece) fill(from *source.Reader) (more bool, err error) {
	p.n, err = io.ReadFull(from, p.bytes[:])
	switch {
	case from.Err() != nil:
		return false, from.Err()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return false, nil
	}
	return true, err
}

// pipeline is the copy of one large blob.
type pipeline struct {
	pieces *pieces
	file   *os.File
	own    chan *piece // the Put's own piece, while no stage uses it
	write  chan *piece
	hash   chan *piece // nil: no hash

	failed   atomic.Bool // the reader or a stage has failed: the file is useless
	writeErr error       // read once the stages have ended
}

func (s *pieces) pipeline(first *piece, file *os.File, from *source.Reader, sum io.Writer, meanwhile func() error) error {
	l := &pipeline{pieces: s, file: file, own: make(chan *piece, 1), write: make(chan *piece, writeAhead)}
	var stages sync.WaitGroup
	stages.Go(l.writeAll)
	var beside error
	stages.Go(func() { beside = meanwhile() })
	if sum != nil {
		l.hash = make(chan *piece, hashAhead)
		stages.Go(func() { l.hashAll(sum) })
	}
	err := l.feed(first, from)
	if err != nil {
		l.failed.Store(true)
	}
	close(l.write)
	if l.hash != nil {
		close(l.hash)
	}
	stages.Wait()
	s.give(<-l.own)
	if err != nil {
		return err
	}
	return errors.Join(l.writeErr, beside)
}

// feed passes pieces to the stages until the end or until one fails.
func (l *pipeline) feed(p *piece, from *source.Reader) (err error) {
	for more := true; ; {
		l.pass(p)
		if !more || l.failed.Load() {
			return nil
		}
		p = l.next()
		if more, err = p.fill(from); err != nil {
			p.users.Store(1)
			l.end(p)
			return err
		}
	}
}

// next returns a free piece.
func (l *pipeline) next() *piece {
	select {
	case p := <-l.own:
		return p
	default:
	}
	select {
	case p := <-l.own:
		return p
	case l.pieces.spares <- struct{}{}:
		p := l.pieces.take()
		p.spare = true
		return p
	}
}

func (l *pipeline) pass(p *piece) {
	if l.hash == nil {
		p.users.Store(1)
	} else {
		p.users.Store(2)
		l.hash <- p
	}
	l.write <- p
}

// end releases a stage's use of the piece.
func (l *pipeline) end(p *piece) {
	if p.users.Add(-1) > 0 {
		return
	}
	if !p.spare {
		l.own <- p
		return
	}
	p.spare = false
	l.pieces.give(p)
	<-l.pieces.spares
}

func (l *pipeline) writeAll() {
	var written, begun int64
	for p := range l.write {
		if l.writeErr == nil {
			n, err := l.file.Write(p.bytes[:p.n])
			written += int64(n)
			if err != nil {
				l.writeErr = err
				l.failed.Store(true)
			}
		}
		l.end(p)
		if written-begun >= writebackBytes {
			startWriteback(l.file, begun, written-begun)
			begun = written
		}
	}
	if !l.failed.Load() {
		l.writeErr = l.file.Sync()
	}
}

func (l *pipeline) hashAll(sum io.Writer) {
	for p := range l.hash {
		_, _ = sum.Write(p.bytes[:p.n]) // a hash never fails
		l.end(p)
	}
}
