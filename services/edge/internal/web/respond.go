package web

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

// formatTime writes Unix milliseconds.
func formatTime(ms int64) string { return event.FormatTime(ms) }

// json answers with v in JSON.
func (s *Server) json(c *fiber.Ctx, status int, v any) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return send(c, status, bytes.TrimSuffix(out.Bytes(), []byte("\n")))
}

// send answers with body, which is JSON and the response's from here on.
func send(c *fiber.Ctx, status int, body []byte) error {
	sendHeader(c, status)
	c.Response().SetBodyRaw(body)
	return nil
}

// sendCopy is send for a short body, which stays the caller's: it may be on the stack.
func sendCopy(c *fiber.Ctx, status int, body []byte) error {
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

// setLocation says where to find what was made: at an address of the edge, whose path is given in parts.
func (s *Server) setLocation(c *fiber.Ctx, path ...string) {
	address := append(make([]byte, 0, 128), *s.publicURL.Load()...)
	for _, part := range path {
		address = append(address, part...)
	}
	c.Response().Header.SetBytesV(fiber.HeaderLocation, address)
}

// object is a JSON object that is being written. Names of members are written as they are.
type object []byte

// newAnswer begins the body of a success, with room for size bytes.
func newAnswer(size int) object { return answerIn(make([]byte, 0, size)) }

// answerIn is newAnswer in memory of the caller's.
func answerIn(room []byte) object { return append(object(room), `{"success":true`...) }

func (o object) key(name string) object {
	if o[len(o)-1] != '{' {
		o = append(o, ',')
	}
	return append(append(append(o, '"'), name...), '"', ':')
}

func (o object) str(name, v string) object { return appendString(o.key(name), v) }

// strOf is str of the parts as one string.
func (o object) strOf(name string, parts ...string) object {
	o = append(o.key(name), '"')
	for _, part := range parts {
		o = appendEscaped(o, part)
	}
	return append(o, '"')
}

func (o object) int(name string, v int64) object { return strconv.AppendInt(o.key(name), v, 10) }

func (o object) bool(name string, v bool) object { return strconv.AppendBool(o.key(name), v) }

// time writes Unix milliseconds, null for 0.
func (o object) time(name string, ms int64) object {
	o = o.key(name)
	if ms == 0 {
		return append(o, "null"...)
	}
	return append(event.AppendTime(append(o, '"'), ms), '"')
}

func (o object) end() object { return append(o, '}') }

// remaining ends the body of a success.
func (o object) remaining(n int64) object { return o.int("remaining", n).end() }

// appendString appends s as a JSON string.
func appendString[T string | []byte](dst []byte, s T) []byte {
	return append(appendEscaped(append(dst, '"'), s), '"')
}

const hexDigits = "0123456789abcdef"

// appendEscaped appends s as it stands between the quotes of a JSON string. Bytes that are not UTF-8 become U+FFFD:
// nothing stored has any, but an answer must be JSON in any case.
func appendEscaped[T string | []byte](dst []byte, s T) []byte {
	from := len(dst)
	dst = append(dst, s...) // most texts stay as they are
	plain := input.PlainRun(dst[from:])
	if plain == len(s) {
		return dst
	}
	return appendSpecial(dst[:from+plain], []byte(s[plain:]))
}

// appendSpecial is appendEscaped for a text that begins with a byte that has to be escaped, or is not ASCII.
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
