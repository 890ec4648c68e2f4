package httpin

import (
	"errors"
	"io"
)

// FileBody is a body that lies in a file, from which the kernel sends it without a copy in this process. It is for one
// goroutine. It has no WriteTo, which fasthttp would call in its place.
type FileBody interface {
	io.ReadCloser
	// Next is a reader of the next bytes of the file, at most limit. It is read to its end before the Next after it. After
	// the last bytes it is io.EOF. Another error cuts the answer off.
	Next(limit int64) (*io.LimitedReader, error)
}

// ReadFrom sends a body. fasthttp calls it for streams of a known length.
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
		n, err := io.Copy(c.Conn, piece) // sendfile(2), where the connection is one of TCP
		sent += n
		switch {
		case err != nil:
			return sent, err
		case piece.N > 0: // the file has become shorter
			return sent, io.ErrUnexpectedEOF
		}
	}
}
