package headers

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// Ranged is a representation that can be sent whole or in part.
type Ranged struct {
	Validators
	Size int64
	Open func(offset, length int64) (io.ReadCloser, error)
}

// WriteRange answers with src, or the part of it that Range and If-Range ask for: 200, 206 or 416. A request for several
// ranges gets the whole (RFC 9110, 14.2).
func WriteRange(c *fiber.Ctx, src *Ranged) error {
	c.Set(fiber.HeaderAcceptRanges, "bytes")
	offset, length, status := int64(0), src.Size, fiber.StatusOK
	if header := c.Get(fiber.HeaderRange); header != "" && c.Method() == fiber.MethodGet && rangeApplies(c, src) {
		part, valid, satisfiable := parseRange(header, src.Size)
		switch {
		case valid && !satisfiable:
			c.Set(fiber.HeaderContentRange, "bytes */"+strconv.FormatInt(src.Size, 10))
			return &httperr.Error{
				Status: fiber.StatusRequestedRangeNotSatisfiable, Code: httperr.CodeRangeNotSatisfiable, Field: fiber.HeaderRange,
				Message: fmt.Sprintf("Range must be within the content's %d bytes.", src.Size),
			}
		case valid:
			offset, length, status = part.offset, part.length, fiber.StatusPartialContent
			c.Set(fiber.HeaderContentRange, fmt.Sprintf("bytes %d-%d/%d", offset, offset+length-1, src.Size))
		}
	}
	stream, err := src.Open(offset, length)
	if err != nil {
		c.Response().Header.Del(fiber.HeaderContentRange)
		return err
	}
	SetETag(c, src.ETag)
	SetLastModified(c, src.Validators)
	c.Status(status)
	c.Context().Response.SetBodyStream(stream, int(length))
	return nil
}

// rangeApplies evaluates If-Range: the range counts only if the client's other parts are from the same bytes, by ETag or by a
// date equal to Last-Modified (RFC 9110, 13.1.5).
func rangeApplies(c *fiber.Ctx, src *Ranged) bool {
	condition := strings.Trim(c.Get(fiber.HeaderIfRange), " \t")
	if condition == "" || condition == quote(src.ETag) {
		return true
	}
	since := readDate(c, fiber.HeaderIfRange)
	return since.sent && src.Settled && since.unix == src.lastModified()
}

type byteRange struct{ offset, length int64 }

// parseRange parses a Range header with a single range. One that is invalid, not in bytes or has several ranges is ignored.
func parseRange(header string, size int64) (part byteRange, valid, satisfiable bool) {
	unit, set, ok := strings.Cut(header, "=")
	first, last, dash := strings.Cut(strings.TrimSpace(set), "-")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") || !dash || strings.Contains(set, ",") {
		return byteRange{}, false, false
	}
	if first == "" {
		n, ok := parsePosition(last)
		if !ok {
			return byteRange{}, false, false
		}
		n = min(n, size)
		return byteRange{size - n, n}, true, n > 0
	}
	from, ok := parsePosition(first)
	if !ok {
		return byteRange{}, false, false
	}
	to := size - 1
	if last != "" {
		n, ok := parsePosition(last)
		if !ok || n < from {
			return byteRange{}, false, false
		}
		to = min(to, n)
	}
	return byteRange{from, to - from + 1}, true, from < size
}

// parsePosition parses digits; too large a number becomes the maximum.
func parsePosition(s string) (int64, bool) {
	if s == "" {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<62 - 1, true
	}
	return n, true
}
