package httpin

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

func TestHeadersEndWhereTheyEnd(t *testing.T) {
	for _, tc := range []struct {
		in, rest string
		done     bool
		refusal  string
	}{
		{"GET / HTTP/1.1\r\nA: b\r\n\r\nbody", "body", true, ""},
		{"GET / HTTP/1.1\nA: b\n\nbody", "body", true, ""},
		{"\r\n\r\nGET / HTTP/1.1\r\n\r\nbody\r\n", "body\r\n", true, ""},
		{"GET / HTTP/1.1\r\nA: \r\n\r\n\r\n", "\r\n", true, ""},
		{"GET / HTTP/1.1\r\nA: b\r\n", "", false, ""},
		{"GET / HTTP/1.0\r\nHost: a\r\nHosts: b\r\nX-Host: c\r\nHo: d\r\n\r\n\x00", "\x00", true, ""},
		{"GET / HTTP/1.1\r\n\r\r\n", "", false, controlInLine},
		{"GET / HTTP/1.1\r\nA: b\rc\r\n\r\n", "", false, controlInLine},
		{"GET / HTTP/1.1\r\nA: b\r\r\n\r\n", "", false, controlInLine},
		{"GET / HTTP/1.1\r\nA: b\x00\r\n\r\n", "", false, controlInLine},
		{"GET /\x00 HTTP/1.1\r\n\r\n", "", false, controlInLine},
		{"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", "", false, foldedLine},
		{"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nhOST:a\r\n\r\n", "", false, severalHosts},
		{"GET / HTTP/1.2\r\n\r\n", "", false, unknownVersion},
		{"GET / HTTP/0.9\n\n", "", false, unknownVersion},
		{"GET / http/1.1\r\n\r\n", "", false, unknownVersion},
		{"GET /HTTP/1.1\r\n\r\n", "", false, unknownVersion},
		{"GET /\r\n\r\n", "", false, unknownVersion},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", false, unknownVersion},
		{"\r\nG\r\n\r\n", "", false, unknownVersion},
	} {
		for step := 1; step <= len(tc.in); step++ {
			var h headerScan
			taken := 0
			for taken < len(tc.in) && !h.done && h.refusal == "" {
				taken += h.take([]byte(tc.in[taken:min(taken+step, len(tc.in))]))
			}
			if h.refusal != tc.refusal || h.done != tc.done || tc.refusal == "" && tc.in[taken:] != tc.rest {
				t.Errorf("%q by %d: left %q, done %v, refused %q", tc.in, step, tc.in[taken:], h.done, h.refusal)
			}
			if tc.refusal != "" && (h.take([]byte("A: b\r\n\r\n")) != 0 || strings.Contains(tc.in[:taken], "\n\n")) {
				t.Errorf("%q by %d: more is taken after the refusal", tc.in, step)
			}
		}
	}
}

func TestAHandlerIsToldOfAClientThatHangsUp(t *testing.T) {
	waiting, closed, told := make(chan bool), make(chan struct{}), make(chan bool, 1)
	addr := startServer(t, Config{}, func(s *Server) {
		s.Handle("GET", "/", func(c *fiber.Ctx) error {
			waiting <- HungUp(c)
			<-closed
			limit := time.After(20 * time.Second)
			look := time.NewTicker(time.Millisecond) // the close takes a moment to arrive
			defer look.Stop()
			for !HungUp(c) {
				select {
				case <-look.C:
				case <-limit:
					told <- false
					return nil
				}
			}
			told <- true
			return nil
		})
	})
	client, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if <-waiting {
		t.Error("told while the client waits")
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	close(closed)
	if !<-told {
		t.Error("not told")
	}
}
