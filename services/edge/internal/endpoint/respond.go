package endpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/httpin/input"
)

const contentTypeJSON = "application/json; charset=utf-8"

// FormatTime writes Unix milliseconds.
func FormatTime(ms int64) string { return event.FormatTime(ms) }

// JSON answers with v in JSON.
func (s *Base) JSON(c *fiber.Ctx, status int, v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return Send(c, status, bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}

// Succeed answers with a success alone, unless the operation has failed.
func (s *Base) Succeed(c *Call, err error) error {
	if err != nil {
		return err
	}
	return s.JSON(c.Ctx, fiber.StatusOK, Succeeded())
}

// Send answers with a JSON body, which the response takes over.
func Send(c *fiber.Ctx, status int, body []byte) error {
	sendHeader(c, status)
	c.Response().SetBodyRaw(body)
	return nil
}

// SendCopy is Send for a short body, which it copies, so that it may be on the stack.
func SendCopy(c *fiber.Ctx, status int, body []byte) error {
	sendHeader(c, status)
	c.Response().SetBody(body)
	return nil
}

func sendHeader(c *fiber.Ctx, status int) {
	r := c.Response()
	r.SetStatusCode(status)
	r.Header.SetContentType(contentTypeJSON)
	r.Header.Set(fiber.HeaderCacheControl, "no-store")
}

// SetLocation sets Location to an address of the edge, whose path is given in parts.
func (s *Base) SetLocation(c *fiber.Ctx, path ...string) {
	address := append(make([]byte, 0, 128), *s.publicURL.Load()...)
	for _, part := range path {
		address = append(address, part...)
	}
	c.Response().Header.SetBytesV(fiber.HeaderLocation, address)
}

// Object is a JSON object under construction. Names of members are written without escaping.
type Object []byte

// NewAnswer starts the body of a success, with capacity for size bytes.
func NewAnswer(size int) Object { return AnswerIn(make([]byte, 0, size)) }

// AnswerIn is NewAnswer in memory of the caller.
func AnswerIn(room []byte) Object { return append(Object(room), `{"success":true`...) }

// Key writes the name of a member. Its value follows.
func (o Object) Key(name string) Object {
	if o[len(o)-1] != '{' {
		o = append(o, ',')
	}
	return append(append(append(o, '"'), name...), '"', ':')
}

// Str writes a member that is text.
func (o Object) Str(name, v string) Object { return AppendString(o.Key(name), v) }

// StrOf is Str of the concatenated parts.
func (o Object) StrOf(name string, parts ...string) Object {
	o = append(o.Key(name), '"')
	for _, part := range parts {
		o = AppendEscaped(o, part)
	}
	return append(o, '"')
}

// Int writes a member that is a whole number.
func (o Object) Int(name string, v int64) Object { return strconv.AppendInt(o.Key(name), v, 10) }

// Bool writes a member that is true or false.
func (o Object) Bool(name string, v bool) Object { return strconv.AppendBool(o.Key(name), v) }

// Time adds a time in Unix milliseconds, null for 0.
func (o Object) Time(name string, ms int64) Object {
	o = o.Key(name)
	if ms == 0 {
		return append(o, "null"...)
	}
	return append(event.AppendTime(append(o, '"'), ms), '"')
}

// End ends the object.
func (o Object) End() Object { return append(o, '}') }

// AppendString appends s as a JSON string.
func AppendString[T string | []byte](dst []byte, s T) []byte {
	return append(AppendEscaped(append(dst, '"'), s), '"')
}

const hexDigits = "0123456789abcdef"

// AppendEscaped appends s escaped for a JSON string, without quotes. Invalid UTF-8 becomes U+FFFD: stored text has none, but
// an answer must be JSON in any case.
func AppendEscaped[T string | []byte](dst []byte, s T) []byte {
	from := len(dst)
	dst = append(dst, s...) // most texts need no escaping
	plain := input.PlainRun(dst[from:])
	if plain == len(s) {
		return dst
	}
	return appendSpecial(dst[:from+plain], []byte(s[plain:]))
}

// appendSpecial is AppendEscaped for text that begins with a non-ASCII byte or one that needs escaping.
func appendSpecial(dst, s []byte) []byte {
	for len(s) > 0 {
		size := 1
		switch b := s[0]; {
		case b >= utf8.RuneSelf:
			var r rune
			if r, size = utf8.DecodeRune(s); r == utf8.RuneError && size == 1 {
				dst = append(dst, `\ufffd`...)
			} else {
				dst = append(dst, s[:size]...)
			}
		case b == '"', b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, '\\', 'n')
		case b == '\r':
			dst = append(dst, '\\', 'r')
		case b == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[b>>4], hexDigits[b&15])
		}
		plain := size + input.PlainRun(s[size:])
		dst = append(dst, s[size:plain]...)
		s = s[plain:]
	}
	return dst
}
