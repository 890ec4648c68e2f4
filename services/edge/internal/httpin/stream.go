package httpin

import (
	"bufio"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Stream is the body of an answer that is written bit by bit, while the client listens. It is for one goroutine.
type Stream struct {
	w        *bufio.Writer
	conn     *conn
	draining func() bool
}

// Stream answers with a body that write makes. write runs after the handler has returned, so that it must use nothing of c,
// and ends soon after Stream.Over is true. The connection ends with it: a client that wants more connects again. HEAD has the same
// headers, and write does not run.
func (s *Server) Stream(c *fiber.Ctx, write func(*Stream)) {
	out := &Stream{conn: connOf(c), draining: s.draining.Load}
	c.Context().SetConnectionClose()
	if c.Method() == fiber.MethodHead {
		c.Context().SetBodyStream(strings.NewReader(""), -1) // of no known length
		return
	}
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		out.w = w
		write(out)
	})
}

// Send sends p at once. An error means that nobody listens any more.
func (s *Stream) Send(p []byte) error {
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return s.w.Flush()
}

// Over tells whether the client has gone, or the server is to stop.
func (s *Stream) Over() bool { return s.draining() || s.conn.ended() }
