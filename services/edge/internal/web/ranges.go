package web

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/fault"
)

// ranged is a representation that is sent whole or in part.
type ranged struct {
	size int64
	etag string // opaque, without quotes
	open func(offset, length int64) (io.ReadCloser, error)
}

// writeRange answers with src, or the part of it that Range and If-Range ask for: 200, 206, or
// fault.RangeNotSatisfiable. Several ranges at once are answered with the whole (RFC 9110, 14.2).
func writeRange(c *fiber.Ctx, src *ranged) error {
	c.Set(fiber.HeaderAcceptRanges, "bytes")
	offset, length, status := int64(0), src.size, fiber.StatusOK
	if header := c.Get(fiber.HeaderRange); header != "" && c.Method() == fiber.MethodGet && rangeApplies(c, src) {
		part, valid, satisfiable := parseRange(header, src.size)
		switch {
		case valid && !satisfiable:
			c.Set(fiber.HeaderContentRange, "bytes */"+strconv.FormatInt(src.size, 10))
			return fault.New(fault.RangeNotSatisfiable, "The range is outside of the %d bytes there are.", src.size)
		case valid:
			offset, length, status = part.offset, part.length, fiber.StatusPartialContent
			c.Set(fiber.HeaderContentRange, "bytes "+strconv.FormatInt(offset, 10)+"-"+
				strconv.FormatInt(offset+length-1, 10)+"/"+strconv.FormatInt(src.size, 10))
		}
	}
	stream, err := src.open(offset, length)
	if err != nil {
		c.Response().Header.Del(fiber.HeaderContentRange)
		return err
	}
	c.Set(fiber.HeaderETag, quote(src.etag))
	c.Status(status)
	c.Context().Response.SetBodyStream(stream, int(length))
	return nil
}

// rangeApplies is If-Range: only while the client's part is of the same bytes. A date never is.
func rangeApplies(c *fiber.Ctx, src *ranged) bool {
	condition := strings.TrimSpace(c.Get(fiber.HeaderIfRange))
	return condition == "" || condition == quote(src.etag)
}

type byteRange struct{ offset, length int64 }

// parseRange reads a Range header of one range. Where it is not valid, or not in bytes, or of more
// ranges, it is as if it were not there.
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

// parsePosition reads digits; a number that is too large is the largest.
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

// setDownload is for bytes that somebody uploaded: a browser saves them, and runs nothing of them.
func setDownload(c *fiber.Ctx, name, contentType string, modified time.Time) {
	c.Set(fiber.HeaderContentType, contentType)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderContentSecurityPolicy, "sandbox; default-src 'none'")
	c.Set(fiber.HeaderContentDisposition, contentDisposition(name))
	c.Set(fiber.HeaderCacheControl, "private, no-cache")
	c.Set(fiber.HeaderLastModified, modified.UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
}

// contentDisposition names the file in ASCII for old clients and in UTF-8 for the others (RFC 6266).
func contentDisposition(name string) string {
	var plain, encoded strings.Builder
	ascii := true
	for _, r := range name {
		if r < ' ' || r >= 0x7f || r == '"' || r == '\\' || r == '%' {
			plain.WriteByte('_')
			ascii = false
			continue
		}
		plain.WriteRune(r)
	}
	if ascii {
		return `attachment; filename="` + plain.String() + `"`
	}
	for i := range len(name) {
		if c := name[i]; attrChar(c) {
			encoded.WriteByte(c)
		} else {
			encoded.WriteString("%" + strings.ToUpper(string([]byte{hexDigits[c>>4], hexDigits[c&15]})))
		}
	}
	return `attachment; filename="` + plain.String() + `"; filename*=UTF-8''` + encoded.String()
}

// attrChar is RFC 8187's.
func attrChar(c byte) bool {
	if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
		return true
	}
	return strings.IndexByte("!#$&+-.^_`|~", c) >= 0
}
