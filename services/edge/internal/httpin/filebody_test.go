package httpin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/headers"
)

// watchedListener records what its connections ask of the kernel.
type watchedListener struct {
	net.Listener
	reads atomic.Int64

	mu    sync.Mutex
	files []int64 // bytes of each piece sent by the kernel from a file
}

func (l *watchedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{c.(*net.TCPConn), l}, nil
}

type watchedConn struct {
	*net.TCPConn
	l *watchedListener
}

// ReadFrom records what the kernel sends from a file: net.TCPConn uses sendfile(2) for an *io.LimitedReader of an *os.File.
func (c *watchedConn) ReadFrom(r io.Reader) (int64, error) {
	if piece, ok := r.(*io.LimitedReader); ok {
		if _, ok := piece.R.(*os.File); ok {
			c.l.mu.Lock()
			c.l.files = append(c.l.files, piece.N)
			c.l.mu.Unlock()
		}
	}
	return c.TCPConn.ReadFrom(r)
}

func (c *watchedConn) Read(p []byte) (int, error) {
	c.l.reads.Add(1)
	return c.TCPConn.Read(p)
}

func (c *watchedConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.TCPConn.SyscallConn()
	return &watchedRaw{raw, c.l}, err
}

type watchedRaw struct {
	syscall.RawConn
	l *watchedListener
}

func (r *watchedRaw) Read(f func(fd uintptr) bool) error {
	return r.RawConn.Read(func(fd uintptr) bool {
		r.l.reads.Add(1)
		return f(fd)
	})
}

// sentFromFiles returns the pieces sent by the kernel since the last call.
func (l *watchedListener) sentFromFiles() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	files := l.files
	l.files = nil
	return files
}

func startWatched(t testing.TB, setup func(*Server)) (*watchedListener, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	watched := &watchedListener{Listener: ln}
	return watched, startServerOn(t, Config{}, watched, setup)
}

// testFile is a FileBody. Its fault replaces the last piece.
type testFile struct {
	file   *os.File // not embedded: fasthttp would take its WriteTo
	piece  io.LimitedReader
	left   int64
	fault  error
	nexts  *atomic.Int64
	closed func()
}

func (f *testFile) Next(limit int64) (*io.LimitedReader, error) {
	f.nexts.Add(1)
	if f.piece.N > 0 {
		return &f.piece, nil
	}
	n := min(limit, f.left)
	switch {
	case n == 0:
		return nil, io.EOF
	case n == f.left && f.fault != nil:
		return nil, f.fault
	}
	f.left -= n
	f.piece = io.LimitedReader{R: f.file, N: n}
	return &f.piece, nil
}

func (f *testFile) Read(p []byte) (int, error) {
	if f.piece.N == 0 {
		if _, err := f.Next(int64(len(p))); err != nil {
			return 0, err
		}
	}
	return f.piece.Read(p)
}

func (f *testFile) Close() error {
	defer f.closed()
	return f.file.Close()
}

func TestTheKernelSendsFiles(t *testing.T) {
	content := make([]byte, 3<<20+5)
	rand.NewChaCha8([32]byte{1}).Read(content)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	var nexts atomic.Int64
	var open sync.WaitGroup // files
	var fault error
	missing := int64(0) // bytes missing from the file
	watched, addr := startWatched(t, func(s *Server) {
		s.Handle("GET", "/file", func(c *fiber.Ctx) error {
			return headers.WriteRange(c, &headers.Ranged{Size: int64(len(content)) + missing, Validators: headers.Validators{ETag: "tag"}, Open: func(offset, length int64) (io.ReadCloser, error) {
				file, err := os.Open(path)
				if err != nil {
					return nil, err
				}
				open.Add(1)
				_, err = file.Seek(offset, io.SeekStart)
				return &testFile{file: file, left: length, fault: fault, nexts: &nexts, closed: open.Done}, err
			}})
		})
	})
	get := func(method, ranged string) (*http.Response, []byte, error) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+"/file", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Range", ranged)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return answer, body, err
	}
	size := len(content)
	for _, tc := range []struct {
		ranged   string
		from, to int
	}{
		{"", 0, size},
		{"bytes=0-0", 0, 1},
		{"bytes=1-8000", 1, 8001},
		{"bytes=7-10006", 7, 10_007},
		{fmt.Sprintf("bytes=5-%d", 5+2*writeChunk-1), 5, 5 + 2*writeChunk},
		{"bytes=-1000000", size - 1_000_000, size},
	} {
		watched.sentFromFiles()
		answer, got, err := get("GET", tc.ranged)
		if err != nil || !bytes.Equal(got, content[tc.from:tc.to]) || answer.ContentLength != int64(tc.to-tc.from) {
			t.Errorf("%q: %s with %d of %d bytes, %v", tc.ranged, answer.Status, len(got), answer.ContentLength, err)
		}
		sent := int64(0)
		for _, n := range watched.sentFromFiles() {
			sent += n
			if n > writeChunk {
				t.Errorf("%q: %d bytes at once, which a slow client may not have time for", tc.ranged, n)
			}
		}
		// What fits into fasthttp's buffer after the header is copied into it.
		if copied := int64(tc.to-tc.from) - sent; copied > 8<<10 || tc.to-tc.from > 16<<10 && copied != 0 {
			t.Errorf("%q: %d bytes were not sent by the kernel", tc.ranged, copied)
		}
	}

	open.Wait() // the last Next follows the last byte
	nexts.Store(0)
	if answer, got, err := get("HEAD", ""); err != nil || len(got) > 0 || answer.ContentLength != int64(size) || nexts.Load() > 0 {
		t.Errorf("HEAD: %d of %d bytes, %v; %d pieces were asked for", len(got), answer.ContentLength, err, nexts.Load())
	}
	fault = errors.New("the file is damaged")
	if _, got, err := get("GET", ""); !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.Equal(got, content[:len(got)]) || len(got) >= size {
		t.Errorf("a file with a fault: %d bytes, %v", len(got), err)
	}
	fault, missing = nil, 1<<20
	if _, got, err := get("GET", ""); !errors.Is(err, io.ErrUnexpectedEOF) || len(got) > size {
		t.Errorf("a file that is too short: %d bytes, %v", len(got), err)
	}
	open.Wait()
}

// TestAStreamThatIsNoFileIsSentWhole, with a large buffer or, once those are taken, with a small one.
func TestAStreamThatIsNoFileIsSentWhole(t *testing.T) {
	content := strings.Repeat("content ", 100_000)
	begun, goOn := make(chan struct{}), make(chan struct{})
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("GET", "/", func(c *fiber.Ctx) error {
			return headers.WriteRange(c, &headers.Ranged{Size: int64(len(content)), Open: func(int64, int64) (io.ReadCloser, error) {
				return io.NopCloser(io.MultiReader(strings.NewReader(content[:9]), &waiting{begun, goOn}, strings.NewReader(content[9:]))), nil
			}})
		})
	})
	const clients = largeSends + 5
	answers := make(chan error, clients)
	for range clients {
		go func() {
			answer, err := http.Get("http://" + addr)
			if err != nil {
				answers <- err
				return
			}
			defer answer.Body.Close()
			got, err := io.ReadAll(answer.Body)
			if err == nil && string(got) != content {
				err = fmt.Errorf("%d other bytes", len(got))
			}
			answers <- err
		}()
	}
	for range clients {
		<-begun
	}
	close(goOn) // all are running
	for range clients {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// waiting has no bytes, and ends once goOn is closed.
type waiting struct{ begun, goOn chan struct{} }

func (w *waiting) Read([]byte) (int, error) {
	w.begun <- struct{}{}
	<-w.goOn
	return 0, io.EOF
}

// TestALargeBodyIsReadInLargePieces, also by a decoder that asks for small ones, and what follows it is the next request.
func TestALargeBodyIsReadInLargePieces(t *testing.T) {
	watched, addr := startWatched(t, func(s *Server) {
		s.Handle("POST", "/form", func(c *fiber.Ctx) error {
			_, _, params := headers.MediaType(c)
			form := multipart.NewReader(BodyOf(c), params["boundary"])
			part, err := form.NextRawPart()
			if err != nil {
				return err
			}
			n, err := io.Copy(io.Discard, part)
			if err != nil {
				return err
			}
			if _, err := form.NextRawPart(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("there is more: %w", err)
			}
			// The form may end before the body, and the rest would close the connection.
			if _, err := io.Copy(io.Discard, BodyOf(c)); err != nil {
				return err
			}
			return c.JSON(map[string]any{"size": n})
		})
	})
	const size = 8 << 20
	file := strings.Repeat("x", size)
	body := "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + file + "\r\n--b--\r\n"
	for name, framed := range map[string]string{
		"a length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body),
		"chunks":   fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
	} {
		request := "POST /form HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\n" + framed
		watched.reads.Store(0)
		for i, answer := range exchange(t, addr, request+request, 2) {
			if answer.status != 200 || answer.body != fmt.Sprintf(`{"size":%d}`, size) {
				t.Errorf("%s, answer %d: %d %s", name, i+1, answer.status, answer.body)
			}
		}
		// The kernel has what has arrived, less than a buffer from a slow client.
		if reads := watched.reads.Load(); reads > 2*size/(8<<10) {
			t.Errorf("%s: %d reads of the connection for %d bytes", name, reads, 2*size)
		}
	}
}
