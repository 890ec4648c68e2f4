package web

import (
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
)

const maxETags = 64

// etags is an If-Match or If-None-Match header (RFC 9110, 13.1).
type etags struct {
	sent bool
	any  bool // *
	tags []etag
}

type etag struct {
	opaque string
	weak   bool
}

// parseETags reads the header; what does not follow the grammar is 400.
func parseETags(c *fiber.Ctx, header string) (etags, error) {
	values := c.Context().Request.Header.PeekAll(header)
	if len(values) == 0 {
		return etags{}, nil
	}
	out := etags{sent: true}
	for _, v := range values {
		text := strings.TrimSpace(string(v))
		if text == "*" && len(values) == 1 {
			out.any = true
			return out, nil
		}
		tags, ok := splitETags(text)
		if !ok || len(tags)+len(out.tags) > maxETags {
			return etags{}, invalidField(header, `must be * or a list of quoted tags like "3"`)
		}
		out.tags = append(out.tags, tags...)
	}
	return out, nil
}

func splitETags(text string) ([]etag, bool) {
	var out []etag
	for {
		text = strings.TrimLeft(text, " \t")
		rest, weak := strings.CutPrefix(text, "W/")
		rest, quoted := strings.CutPrefix(rest, `"`)
		opaque, rest, closed := strings.Cut(rest, `"`)
		if !quoted || !closed || strings.ContainsAny(opaque, " \t\x7f") {
			return nil, false
		}
		out = append(out, etag{opaque, weak})
		rest = strings.TrimLeft(rest, " \t")
		if rest == "" {
			return out, true
		}
		var more bool
		if text, more = strings.CutPrefix(rest, ","); !more {
			return nil, false
		}
	}
}

// versions is what an If-Match allows, as the event takes it. Tags that name no version, weak ones
// among them, match nothing: version 0, which no document has, stands for them.
func (e etags) versions() []uint64 {
	if !e.sent || e.any {
		return nil
	}
	out := make([]uint64, 0, len(e.tags))
	for _, t := range e.tags {
		v, err := strconv.ParseUint(t.opaque, 10, 64)
		if err == nil && !t.weak && v > 0 && strconv.FormatUint(v, 10) == t.opaque {
			out = append(out, v)
		}
	}
	if len(out) == 0 {
		out = append(out, 0)
	}
	return out
}

// matches compares weakly, as If-None-Match does.
func (e etags) matches(opaque string) bool {
	if e.any {
		return true
	}
	for _, t := range e.tags {
		if t.opaque == opaque {
			return true
		}
	}
	return false
}

func quote(tag string) string { return `"` + tag + `"` }
