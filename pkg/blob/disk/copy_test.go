package disk

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"quire.dev/pkg/blob/blobtest"
	"quire.dev/pkg/blob/internal/source"
	"quire.dev/pkg/eventually"
)

const largeBytes = 5<<20 + 7 // many pieces, the last of which is not full

func openStore(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func contentOf(t testing.TB, seed uint64, size int64) []byte {
	t.Helper()
	data, err := io.ReadAll(blobtest.Content(seed, size))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wantStored(t *testing.T, s *Store, key string, want []byte) {
	t.Helper()
	r, _, err := s.Get(t.Context(), key, 0, -1)
	if err != nil {
		t.Error(err)
		return
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not the %d bytes put, %v", key, len(got), len(want), err)
	}
}

// TestAPutNeedsNoSparePiece: slow clients may have them all.
func TestAPutNeedsNoSparePiece(t *testing.T) {
	s := openStore(t)
	for range maxSpares {
		s.pieces.spares <- struct{}{}
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			data, key := contentOf(t, uint64(n), largeBytes), fmt.Sprint("a/", n)
			sum, want := sha256.New(), sha256.Sum256(data)
			if _, err := s.PutHashed(t.Context(), key, bytes.NewReader(data), -1, sum); err != nil || !bytes.Equal(sum.Sum(nil), want[:]) {
				t.Errorf("put: %v, hash %x", err, sum.Sum(nil))
			}
			wantStored(t, s, key, data)
		})
	}
	all.Wait()
	if n := len(s.pieces.spares); n != maxSpares {
		t.Errorf("%d tokens are left of %d that the puts did not take", n, maxSpares)
	}
}

// waitingReader gives its content, and waits before the last byte of it.
type waitingReader struct {
	data []byte
	goOn chan struct{}
}

func (r *waitingReader) Read(p []byte) (int, error) {
	if len(r.data) == 1 {
		<-r.goOn
	}
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data[:max(len(r.data)-1, 1)])
	r.data = r.data[n:]
	return n, nil
}

// TestAPutThatWaitsForItsClientHoldsOnePiece: what is read is written, and more clients than there are spare pieces are not in
// each other's way.
func TestAPutThatWaitsForItsClientHoldsOnePiece(t *testing.T) {
	data := contentOf(t, 1, 3*pieceBytes)
	for _, clients := range []int{10, maxSpares + 10} {
		s, goOn := openStore(t), make(chan struct{})
		var all sync.WaitGroup
		for n := range clients {
			all.Go(func() {
				if _, err := s.PutHashed(t.Context(), fmt.Sprint("a/", n), &waitingReader{data, goOn}, -1, sha256.New()); err != nil {
					t.Error(err)
				}
			})
		}
		eventually.True(t, "the whole pieces that have come are in the files", func() bool {
			files, err := os.ReadDir(s.temp)
			written := 0
			for _, file := range files {
				if info, err := file.Info(); err == nil && info.Size() == 2*pieceBytes {
					written++
				}
			}
			return err == nil && written == clients
		})
		eventually.True(t, "each holds one piece", func() bool { return len(s.pieces.spares) <= clients })
		close(goOn)
		all.Wait()
		if n := len(s.pieces.spares); n != 0 {
			t.Errorf("%d spare pieces are held after the last put", n)
		}
		wantStored(t, s, "a/0", data)
	}
}

// TestAFileThatCannotBeWrittenEndsThePut: the reader is not read to its end, and no piece is lost.
func TestAFileThatCannotBeWrittenEndsThePut(t *testing.T) {
	s := openStore(t)
	file, err := os.Open(filepath.Join(filepath.Dir(s.temp), "lock")) // can't be written
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int64{1, pieceBytes, 1 << 40} {
		from := source.New(t.Context(), io.LimitReader(zeros{}, size), -1)
		if err := s.pieces.copyTo(file, from, sha256.New(), func() error { return nil }); err == nil || from.Err() != nil {
			t.Errorf("%d bytes: %v, %v", size, err, from.Err())
		}
		if from.Size() > 100*pieceBytes {
			t.Errorf("%d bytes were read after the first could not be written", from.Size())
		}
	}
	if n := len(s.pieces.spares); n != 0 {
		t.Errorf("%d spare pieces are held", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestAReaderThatFailsGivesItsPiecesBack, wherever it fails.
func TestAReaderThatFailsGivesItsPiecesBack(t *testing.T) {
	s := openStore(t)
	cause := errors.New("the client went away")
	for _, before := range []int64{0, pieceBytes - 1, pieceBytes, pieceBytes + 1, 20 * pieceBytes} {
		_, err := s.PutHashed(t.Context(), "a/b", io.MultiReader(blobtest.Content(1, before), failing{cause}), -1, sha256.New())
		if !errors.Is(err, cause) {
			t.Errorf("after %d bytes: %v", before, err)
		}
		if left, err := os.ReadDir(s.temp); err != nil || len(left) > 0 || len(s.pieces.spares) > 0 {
			t.Errorf("after %d bytes %d files and %d pieces are left, %v", before, len(left), len(s.pieces.spares), err)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

const benchedBytes = 50 << 20

// BenchmarkPut50MB has two yardsticks: BenchmarkWriteAndSync50MB is what a disk takes for the same bytes.
func BenchmarkPut50MB(b *testing.B) {
	s := openStore(b)
	data := contentOf(b, 1, benchedBytes)
	b.SetBytes(benchedBytes)
	for b.Loop() {
		if _, err := s.PutHashed(b.Context(), "a/b", onlyReader{bytes.NewReader(data)}, -1, sha256.New()); err != nil {
			b.Fatal(err)
		}
	}
}

type onlyReader struct{ io.Reader }

func BenchmarkWriteAndSync50MB(b *testing.B) {
	data := contentOf(b, 1, benchedBytes)
	benchmarkSynced(b, func(file *os.File) (err error) {
		for at := 0; at < len(data) && err == nil; at += 512 << 10 {
			_, err = file.Write(data[at:min(at+512<<10, len(data))])
		}
		return err
	})
}

// BenchmarkReceiveWriteAndSync50MB is what the same takes where another goroutine sends the bytes through a connection: the
// least that an upload takes where the client shares the processors, without a hash.
func BenchmarkReceiveWriteAndSync50MB(b *testing.B) {
	data := contentOf(b, 1, benchedBytes)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer listener.Close()
	sender, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer sender.Close()
	receiver, err := listener.Accept()
	if err != nil {
		b.Fatal(err)
	}
	defer receiver.Close()
	benchmarkSynced(b, func(file *os.File) error {
		sent := make(chan error, 1)
		go func() {
			_, err := sender.Write(data)
			sent <- err
		}()
		_, err := io.CopyN(file, receiver, benchedBytes)
		return errors.Join(err, <-sent)
	})
}

// benchmarkSynced has fill write benchedBytes to a new file, and syncs it.
func benchmarkSynced(b *testing.B, fill func(*os.File) error) {
	path := filepath.Join(b.TempDir(), "file")
	b.SetBytes(benchedBytes)
	for b.Loop() {
		file, err := os.Create(path)
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(fill(file), file.Sync(), file.Close(), os.Remove(path)); err != nil {
			b.Fatal(err)
		}
	}
}
