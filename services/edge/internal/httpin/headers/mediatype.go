// Package headers has the small grammars of header fields: media types, Accept, entity tags and conditions, ranges, and the names of
// files.
package headers

import (
	"mime"
	"strings"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// MediaType is the request's Content-Type in lower case, without parameters; "" where there is none. charset is in
// lower case too.
func MediaType(c *fiber.Ctx) (name, charset string, params map[string]string) {
	sent := c.Request().Header.ContentType()
	if string(sent) == fiber.MIMEApplicationJSON { // as nearly all clients send it
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

// brokenCharset is the charset where the parameters can't be read: nobody can tell which one they name.
const brokenCharset = "?"

// withoutEmptyParams leaves out the parameters of a media type that are empty, which count as none (RFC 9110, 5.6.6).
func withoutEmptyParams(media string) string {
	var out strings.Builder
	quoted, escaped, empty := false, false, false // empty: nothing but white space has followed the last semicolon
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

// UTF8 tells whether text in the charset is UTF-8. A request without a charset is.
func UTF8(charset string) bool {
	return charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii"
}

// RequireJSON refuses, with 415, a body that is declared as anything but JSON. One without a Content-Type is taken.
func RequireJSON(c *fiber.Ctx) error {
	name, charset, _ := MediaType(c)
	if (name == "" || name == fiber.MIMEApplicationJSON) && UTF8(charset) {
		return nil
	}
	return httperr.UnsupportedMediaType("Content-Type must be application/json, in UTF-8.")
}
