package httpin

import (
	"errors"
	"io"
)

// FileBody is a body in a file, which the kernel sends without a copy in this process. For one goroutine only. It must have
// no WriteTo, which fasthttp would prefer.
type FileBody interface {
	io.ReadCloser
	// Next returns a reader of the next bytes of the file, at most limit, and io.EOF after the last ones. The caller reads it
	// to its end before the next call. Another error cuts the answer off.
	Next(limit int64) (*io.LimitedReader, error)
}

// ReadFrom sends a body. fasthttp calls it for streams of known length.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if body, ok := r.(FileBody); ok {
		return c.sendFile(body)
	}
	buffer, done := c.owner.sendBuffer()
	defer done()
	return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, *buffer)
}

func (c *conn) sendFile(body FileBody) (sent int64, err error) {
	for {
		piece, err := body.Next(writeChunk)
		if errors.Is(err, io.EOF) {
			return sent, nil
		}
		if err == nil {
			err = c.allowStall()
		}
		if err != nil {
			return sent, err
		}
		n, err := io.Copy(c.Conn, piece) // sendfile(2) for a TCP connection
		sent += n
		switch {
		case err != nil:
			return sent, err
		case piece.N > 0: // the file was truncated
			return sent, io.ErrUnexpectedEOF
		}
	}
}
