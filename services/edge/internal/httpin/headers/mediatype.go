// Package headers parses and writes header fields: media types, Accept, entity tags and conditions, ranges, and file names.
package headers

import (
	"mime"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// MediaType returns the request's Content-Type and charset in lower case, and the parameters; empty without one.
func MediaType(c *fiber.Ctx) (name, charset string, params map[string]string) {
	sent := c.Request().Header.ContentType()
	if string(sent) == fiber.MIMEApplicationJSON { // nearly all clients send this
		return fiber.MIMEApplicationJSON, "", nil
	}
	raw := withoutEmptyParams(string(sent))
	name, params, err := mime.ParseMediaType(raw)
	if err != nil && raw != "" {
		name, _, _ = strings.Cut(raw, ";")
		return strings.ToLower(strings.TrimSpace(name)), brokenCharset, nil
	}
	return name, strings.ToLower(params["charset"]), params
}

// brokenCharset stands for the charset of malformed parameters.
const brokenCharset = "?"

// withoutEmptyParams removes empty parameters of a media type, which are ignored (RFC 9110, 5.6.6).
func withoutEmptyParams(media string) string {
	var out strings.Builder
	quoted, escaped, empty := false, false, false // empty: only white space since the last semicolon
	for i := range len(media) {
		c := media[i]
		switch {
		case quoted:
			quoted, escaped = c != '"' || escaped, c == '\\' && !escaped
		case c == ';' && empty:
			continue
		case c == ';':
			empty = true
		case c != ' ' && c != '\t':
			quoted, empty = c == '"', false
		}
		out.WriteByte(c)
	}
	return out.String()
}

// UTF8 reports whether a charset is UTF-8 or a subset of it. A missing charset counts as UTF-8.
func UTF8(charset string) bool {
	return charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii"
}

// RequireJSON rejects a body declared as anything but JSON with 415. A missing Content-Type is accepted.
func RequireJSON(c *fiber.Ctx) error {
	name, charset, _ := MediaType(c)
	if (name == "" || name == fiber.MIMEApplicationJSON) && UTF8(charset) {
		return nil
	}
	return httperr.UnsupportedMediaType("Content-Type must be application/json, in UTF-8.")
}
