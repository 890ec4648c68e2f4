package httpin

import (
	"bufio"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Stream is a response body that is sent piece by piece while the client listens. For one goroutine only.
type Stream struct {
	w        *bufio.Writer
	conn     *conn
	draining func() bool
}

// Stream answers with a body that write produces. write runs after the handler has returned, so it must not use c, and must
// end soon after Stream.Over is true. The connection then closes; a client that wants more reconnects. HEAD gets the same
// headers, and write does not run.
func (s *Server) Stream(c *fiber.Ctx, write func(*Stream)) {
	out := &Stream{conn: connOf(c), draining: s.draining.Load}
	c.Context().SetConnectionClose()
	if c.Method() == fiber.MethodHead {
		c.Context().SetBodyStream(strings.NewReader(""), -1) // unknown length
		return
	}
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		out.w = w
		write(out)
	})
}

// Send sends p at once. It fails if nobody listens any more.
func (s *Stream) Send(p []byte) error {
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return s.w.Flush()
}

// Over reports whether the client has gone or the server is stopping.
func (s *Stream) Over() bool { return s.draining() || s.conn.ended() }
