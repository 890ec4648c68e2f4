package httpin

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"quire.dev/services/edge/internal/httpin/httperr"
)

const (
	maxChunkLine    = 256      // bytes, with extensions
	chunkAllowance  = 16       // extra bytes allowed for each chunk
	maxChunkExcess  = 16 << 10 // extra bytes beyond those, over all chunks
	maxTrailerLines = 64
)

// chunks is the state of reading a chunked body. The reader stops at the first byte that breaks the grammar of a line.
type chunks struct {
	reader  *bufio.Reader
	content int64 // bytes of all chunks begun so far
	left    int64 // of the current chunk
	excess  int64 // see maxChunkExcess
}

// rawBody is the source of chunks.reader.
type rawBody struct{ *Body }

func (r rawBody) Read(p []byte) (int, error) { return r.readRaw(p) }

func (b *Body) readChunked(p []byte) (int, error) {
	c := &b.chunks
	if c.reader == nil {
		c.reader = bufio.NewReaderSize(rawBody{b}, connBufferBytes)
	}
	if c.left == 0 {
		switch err := b.nextChunk(); {
		case err != nil:
			return 0, b.fail(err)
		case b.done:
			return 0, io.EOF
		}
	}
	n, err := c.reader.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err != nil {
		return n, b.fail(err)
	}
	return n, nil
}

// nextChunk reads up to the content of the next chunk, or to the end of the body. A chunk over the limit is refused before
// its content is read.
func (b *Body) nextChunk() error {
	c := &b.chunks
	if c.content > 0 {
		if end, err := c.line(0); err != nil {
			return err
		} else if len(end) > 0 {
			return httperr.Malformed(badChunk)
		}
	}
	line, err := c.line(maxChunkLine)
	if err != nil {
		return err
	}
	size, refusal := parseChunkLine(line)
	if refusal != "" {
		return httperr.Malformed("%s", refusal)
	}
	if size == 0 {
		return b.endChunks()
	}
	c.excess = max(0, c.excess+int64(len(line))-chunkAllowance-size)
	if c.excess > maxChunkExcess {
		return httperr.Malformed("The chunk extensions are larger than the content.")
	}
	if limit := b.limit.Bytes; limit > 0 && size > limit-c.content {
		return b.tooLargeError()
	}
	c.content += size
	c.left = size
	return nil
}

// endChunks reads the trailer, which must have the grammar of a header and is otherwise ignored, and ends the body.
func (b *Body) endChunks() error {
	most := b.c.owner.cfg.HeaderBytes
	for range maxTrailerLines + 1 {
		line, err := b.chunks.line(most)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			b.complete()
			rest, _ := b.chunks.reader.Peek(b.chunks.reader.Buffered())
			b.c.unread(rest)
			return nil
		}
		if _, _, refusal := splitField(line); refusal != "" {
			return httperr.Malformed("%s", refusal)
		}
		most -= len(line)
	}
	return errTrailer()
}

func errTrailer() error {
	return httperr.Malformed("The trailer has more than %d lines, or exceeds the limit for headers.", maxTrailerLines)
}

// line reads a line of limited length and strips its CRLF.
func (c *chunks) line(most int) ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull) || err == nil && len(line) > most+len("\r\n"):
		return nil, httperr.Malformed("A chunk size line or trailer line is too long.")
	case err != nil:
		return nil, err
	}
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return nil, httperr.Malformed(bareLineFeed)
	}
	return line, nil
}
