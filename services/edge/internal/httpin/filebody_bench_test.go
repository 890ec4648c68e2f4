package httpin

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/headers"
)

const benchedBytes = 50 << 20

// BenchmarkDownload50MB and BenchmarkBareDownload50MB are a pair: the second is a Fiber handler that streams the same file.
func BenchmarkDownload50MB(b *testing.B) {
	path := benchedFile(b)
	var nexts atomic.Int64
	_, addr := startWatched(b, func(s *Server) {
		s.Handle("GET", "/", func(c *fiber.Ctx) error {
			return headers.WriteRange(c, &headers.Ranged{Size: benchedBytes, Open: func(int64, int64) (io.ReadCloser, error) {
				file, err := os.Open(path)
				return &testFile{file: file, left: benchedBytes, nexts: &nexts, closed: func() {}}, err
			}})
		})
	})
	benchDownloads(b, addr)
}

func BenchmarkBareDownload50MB(b *testing.B) {
	path := benchedFile(b)
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/", func(c *fiber.Ctx) error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return c.SendStream(file, benchedBytes)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- app.Listener(ln) }()
	benchDownloads(b, ln.Addr().String())
	http.DefaultClient.CloseIdleConnections()
	if err := app.Shutdown(); err != nil {
		b.Fatal(err)
	}
	<-done
}

func benchedFile(b *testing.B) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, benchedBytes), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

func benchDownloads(b *testing.B, addr string) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{ReadBufferSize: 1 << 20}}
	defer client.CloseIdleConnections()
	buffer := make([]byte, 1<<20)
	b.SetBytes(benchedBytes)
	for b.Loop() {
		answer, err := client.Get("http://" + addr)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, answer.Body, buffer)
		answer.Body.Close()
		if err != nil || n != benchedBytes {
			b.Fatal(n, err)
		}
	}
}
