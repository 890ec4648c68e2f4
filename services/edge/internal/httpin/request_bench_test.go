package httpin

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
)

// BenchmarkAPlainRequest sends requests with a body on one connection.
func BenchmarkAPlainRequest(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	addr := startServerOn(b, Config{}, ln, func(s *Server) {
		s.Handle("POST", "/there", func(c *fiber.Ctx) error {
			if _, err := s.ReadBody(c, Limit{Bytes: 1 << 20, Name: "1 MB"}); err != nil {
				return err
			}
			return c.SendString("taken")
		})
	})
	c, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	raw := []byte("POST /there HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 512\r\nContent-Type: application/json\r\n" +
		"X-Api-Key: qk_" + strings.Repeat("k", 59) + "\r\nAccept-Encoding: gzip\r\n\r\n" + strings.Repeat("b", 512))
	answer := make([]byte, 4<<10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(raw); err != nil {
			b.Fatal(err)
		}
		for n := 0; !bytes.HasSuffix(answer[:n], []byte("taken")); {
			more, err := c.Read(answer[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += more
		}
	}
}
