package headers

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

const maxETags = 64

// ETags is an If-Match or If-None-Match header (RFC 9110, 13.1).
type ETags struct {
	sent bool
	any  bool // *
	tags []etag
}

type etag struct {
	opaque string
	weak   bool
}

// ParseETags parses a header of entity tags. A malformed one is 400.
func ParseETags(c *fiber.Ctx, header string) (ETags, error) {
	values := c.Context().Request.Header.PeekAll(header)
	if len(values) == 0 {
		return ETags{}, nil
	}
	out := ETags{sent: true}
	for _, v := range values {
		text := strings.Trim(string(v), " \t")
		if text == "*" && len(values) == 1 {
			out.any = true
			return out, nil
		}
		tags, ok := splitETags(text)
		if out.tags = append(out.tags, tags...); !ok || len(out.tags) > maxETags {
			return ETags{}, notETags(header)
		}
	}
	if len(out.tags) == 0 {
		return ETags{}, notETags(header)
	}
	return out, nil
}

func notETags(header string) error {
	return httperr.InvalidField(header, `must be * or a list of quoted tags like "3"`)
}

// splitETags splits a list; empty elements are ignored (RFC 9110, 5.6.1.2).
func splitETags(text string) ([]etag, bool) {
	var out []etag
	for {
		text = strings.TrimLeft(text, " \t,")
		if text == "" {
			return out, true
		}
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

// Numbers returns the versions that an If-Match allows, if tags are numbers from 1; nil allows all. Weak and non-numeric tags
// never match; alone they yield 0.
func (e ETags) Numbers() []uint64 {
	if !e.sent || e.any {
		return nil
	}
	out := make([]uint64, 0, len(e.tags))
	for _, t := range e.tags {
		n, err := strconv.ParseUint(t.opaque, 10, 64)
		if err == nil && !t.weak && n > 0 && strconv.FormatUint(n, 10) == t.opaque {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		out = append(out, 0)
	}
	return out
}

// Matches reports whether the header names the tag, by the weak comparison of If-None-Match.
func (e ETags) Matches(opaque string) bool {
	return e.sent && (e.any || slices.ContainsFunc(e.tags, func(t etag) bool { return t.opaque == opaque }))
}

// allows reports whether the header is missing or names the tag, by the strong comparison of If-Match.
func (e ETags) allows(opaque string) bool {
	return !e.sent || e.any || slices.ContainsFunc(e.tags, func(t etag) bool { return t.opaque == opaque && !t.weak })
}

// SetETag sets the answer's ETag.
func SetETag(c *fiber.Ctx, opaque string) { c.Set(fiber.HeaderETag, quote(opaque)) }

// NotModified answers 304 with the tag that matched.
func NotModified(c *fiber.Ctx, opaque string) error {
	SetETag(c, opaque)
	c.Status(fiber.StatusNotModified)
	return nil
}

func quote(tag string) string { return `"` + tag + `"` }
