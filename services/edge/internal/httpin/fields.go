package httpin

import (
	"bytes"
	"maps"
	"math"
	"mime"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
)

// shorten makes a client's text short enough to be shown in a message.
func shorten(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}

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
	return UnsupportedMediaType("Content-Type must be application/json, in UTF-8.")
}

// QueryFields calls field for every query parameter, as ParseObject does for every member. A parameter that comes twice
// is 400, unless its name is in repeatable.
func QueryFields(c *fiber.Ctx, field func(name string, v Value) error, repeatable ...string) error {
	var seen []string
	var err error
	c.Context().QueryArgs().VisitAll(func(k, v []byte) {
		name := string(k)
		switch {
		case err != nil:
			return
		case !utf8.ValidString(name) || !utf8.Valid(v):
			err = Malformed("The query is not valid UTF-8.")
		case slices.Contains(seen, name) && !slices.Contains(repeatable, name):
			err = InvalidField(name, "must be given once")
		case len(seen) >= maxJSONFields:
			err = Malformed("There are more than %d query parameters.", maxJSONFields)
		default:
			seen = append(seen, name)
			err = field(name, Value{Kind: Query, Text: bytes.Clone(v)})
		}
	})
	return err
}

// ParseForm reads an application/x-www-form-urlencoded body into its fields, in the order of their names. A field that comes
// twice is 400.
func ParseForm(body []byte, fields Fields) error {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return Malformed("The body is not a valid form.")
	}
	if len(values) > maxJSONFields {
		return Malformed("There are more than %d fields.", maxJSONFields)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list := values[name]
		set, known := fields[name]
		switch {
		case !utf8.ValidString(name) || !utf8.ValidString(list[0]):
			return Malformed("The form is not valid UTF-8.")
		case !known:
			return UnknownField(name, slices.Sorted(maps.Keys(fields))...)
		case len(list) > 1:
			return InvalidField(name, "must be given once")
		}
		if err := set(name, Value{Kind: Query, Text: []byte(list[0])}); err != nil {
			return err
		}
	}
	return nil
}

// NoQuery refuses every query parameter.
func NoQuery(c *fiber.Ctx) error {
	if len(c.Context().QueryArgs().QueryString()) == 0 {
		return nil
	}
	return QueryFields(c, Fields(nil).Set)
}

// Fields are the fields that an endpoint takes, by name. Fields.Set is the field of ParseObject and QueryFields. Nil
// takes none.
type Fields map[string]func(name string, v Value) error

// Set has the field read v, and refuses a name that is no field.
func (f Fields) Set(name string, v Value) error {
	if set, ok := f[name]; ok {
		return set(name, v)
	}
	known := slices.Sorted(maps.Keys(f))
	if v.Kind == Query {
		return UnknownParameter(name, known...)
	}
	return UnknownField(name, known...)
}

// To is a field that is read by read and kept in to.
func To[T any](to *T, read func(name string, v Value) (T, error)) func(string, Value) error {
	return func(name string, v Value) (err error) {
		*to, err = read(name, v)
		return err
	}
}

// Line is LineField as a field reads it.
func Line(most int) func(string, Value) (string, error) {
	return func(name string, v Value) (string, error) { return LineField(name, v, most) }
}

// StringField is the field as text.
func StringField(name string, v Value) (string, error) {
	if v.Kind != String && v.Kind != Query {
		return "", InvalidField(name, "must be a string")
	}
	return string(v.Text), nil
}

// LineField is a StringField of one line, of at most most characters, without control characters.
func LineField(name string, v Value, most int) (string, error) {
	s, err := StringField(name, v)
	switch {
	case err != nil:
		return "", err
	case !utf8.ValidString(s): // the name of a form's file may be any bytes
		return "", InvalidField(name, "must be valid UTF-8")
	case utf8.RuneCountInString(s) > most:
		return "", OverLimit(name, int64(most), "must have at most "+strconv.Itoa(most)+" characters")
	case HasControl(s):
		return "", InvalidField(name, "must not contain control characters")
	}
	return s, nil
}

// HasControl tells whether s has a control character.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// BoolField is the field as true or false.
func BoolField(name string, v Value) (bool, error) {
	if v.Kind == Bool || v.Kind == Query {
		switch string(v.Text) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, InvalidField(name, "must be true or false")
}

// CountField reads a query parameter as a whole number from 1 to most.
func CountField(most uint64) func(string, Value) (uint64, error) {
	return func(name string, v Value) (uint64, error) {
		n, err := strconv.ParseUint(string(v.Text), 10, 64)
		switch {
		case err == nil && n >= 1 && n <= most:
			return n, nil
		case most == math.MaxInt64:
			return 0, InvalidField(name, "must be a whole number from 1")
		}
		return 0, OverLimit(name, int64(most), "must be a whole number from 1 to "+strconv.FormatUint(most, 10))
	}
}

// TimeField is the field as a time in the form of RFC 3339.
func TimeField(name string, v Value) (time.Time, error) {
	text, err := StringField(name, v)
	if err != nil {
		return time.Time{}, err
	}
	t, err := ParseTime(text)
	if err != nil {
		return time.Time{}, InvalidField(name, "must be a time like 2026-11-30T12:00:00Z (RFC 3339): "+err.Error())
	}
	return t, nil
}
