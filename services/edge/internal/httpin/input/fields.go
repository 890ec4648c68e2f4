// Package input strictly parses the fields that clients send: in JSON objects, query parameters and forms.
package input

import (
	"bytes"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/num"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// QueryFields calls field for every query parameter, as ParseObject does for every member. A repeated parameter is 400,
// unless its name is in repeatable.
func QueryFields(c *fiber.Ctx, field func(name string, v Value) error, repeatable ...string) error {
	var seen []string
	var err error
	c.Context().QueryArgs().VisitAll(func(k, v []byte) {
		name := string(k)
		switch {
		case err != nil:
			return
		case !utf8.ValidString(name) || !utf8.Valid(v):
			err = httperr.Malformed("The query is not valid UTF-8.")
		case slices.Contains(seen, name) && !slices.Contains(repeatable, name):
			err = httperr.InvalidField(name, "must be sent only once")
		case len(seen) >= maxJSONFields:
			err = httperr.Malformed("The query has more than %d parameters.", maxJSONFields)
		default:
			seen = append(seen, name)
			err = field(name, Value{Kind: Query, Text: bytes.Clone(v)})
		}
	})
	return err
}

// ParseForm parses an application/x-www-form-urlencoded body into its fields, in the order of their names. A repeated field
// is 400.
func ParseForm(body []byte, fields Fields) error { return parseForm(body, fields, false) }

// ParseFormPart is ParseForm for some of the fields: it ignores others.
func ParseFormPart(body []byte, fields Fields) error { return parseForm(body, fields, true) }

func parseForm(body []byte, fields Fields, part bool) error {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return httperr.Malformed("The body is not a valid form.")
	}
	if len(values) > maxJSONFields {
		return httperr.Malformed("The form has more than %d fields.", maxJSONFields)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		list := values[name]
		set, known := fields[name]
		switch {
		case !utf8.ValidString(name) || !utf8.ValidString(list[0]):
			return httperr.Malformed("The form is not valid UTF-8.")
		case !known && part:
			continue
		case !known:
			return httperr.UnknownField(name, slices.Sorted(maps.Keys(fields))...)
		case len(list) > 1:
			return httperr.InvalidField(name, "must be sent only once")
		}
		if err := set(name, Value{Kind: Query, Text: []byte(list[0])}); err != nil {
			return err
		}
	}
	return nil
}

// NoQuery rejects every query parameter.
func NoQuery(c *fiber.Ctx) error {
	if len(c.Context().QueryArgs().QueryString()) == 0 {
		return nil
	}
	return QueryFields(c, Fields(nil).Set)
}

// Source calls field for every field that a client sent, whatever the format, until it returns an error.
type Source func(field func(name string, v Value) error) error

// JSON is the source of a JSON object, as ParseObject parses it.
func JSON(data []byte) Source {
	return func(field func(string, Value) error) error { return ParseObject(data, field) }
}

// List is the source of fields that were parsed before, as a form's are.
func List(fields ...Member) Source {
	return func(field func(string, Value) error) error {
		for _, m := range fields {
			if err := field(m.Name, m.Value); err != nil {
				return err
			}
		}
		return nil
	}
}

// Text is the value of a JSON string.
func Text(text string) Value { return Value{Kind: String, Text: []byte(text)} }

// Fields are the fields of an endpoint, by name. Fields.Set is an argument for ParseObject and QueryFields. Nil has no
// fields.
type Fields map[string]func(name string, v Value) error

// Set parses v into the named field, and rejects an unknown name.
func (f Fields) Set(name string, v Value) error {
	if set, ok := f[name]; ok {
		return set(name, v)
	}
	known := slices.Sorted(maps.Keys(f))
	if v.Kind == Query {
		return httperr.UnknownParameter(name, known...)
	}
	return httperr.UnknownField(name, known...)
}

// To returns a field that stores in to what read returns.
func To[T any](to *T, read func(name string, v Value) (T, error)) func(string, Value) error {
	return func(name string, v Value) (err error) {
		*to, err = read(name, v)
		return err
	}
}

// Line returns a LineField for To.
func Line(most int) func(string, Value) (string, error) {
	return func(name string, v Value) (string, error) { return LineField(name, v, most) }
}

// StringField parses a string.
func StringField(name string, v Value) (string, error) {
	if v.Kind != String && v.Kind != Query {
		return "", httperr.InvalidField(name, "must be a string")
	}
	return string(v.Text), nil
}

// LineField parses a single line of at most so many characters, without control characters.
func LineField(name string, v Value, most int) (string, error) {
	s, err := StringField(name, v)
	switch {
	case err != nil:
		return "", err
	case !utf8.ValidString(s): // the name of a form's file may be any bytes
		return "", httperr.InvalidField(name, "must be valid UTF-8")
	case utf8.RuneCountInString(s) > most:
		return "", httperr.OverLimit(name, int64(most), "must have at most "+strconv.Itoa(most)+" characters")
	case HasControl(s):
		return "", httperr.InvalidField(name, "must not contain control characters")
	}
	return s, nil
}

// HasControl reports whether s has a control character.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// BoolField parses true or false.
func BoolField(name string, v Value) (bool, error) {
	if v.Kind == Bool || v.Kind == Query {
		switch string(v.Text) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, httperr.InvalidField(name, "must be true or false")
}

// CountField parses a query parameter as a whole number from 1 to most.
func CountField(most uint64) func(string, Value) (uint64, error) {
	return func(name string, v Value) (uint64, error) {
		n, err := strconv.ParseUint(string(v.Text), 10, 64)
		switch {
		case err == nil && n >= 1 && n <= most:
			return n, nil
		case most == math.MaxInt64:
			return 0, httperr.InvalidField(name, "must be a whole number from 1")
		}
		return 0, httperr.OverLimit(name, num.Int64(most), "must be a whole number from 1 to "+strconv.FormatUint(most, 10))
	}
}

// TimeField parses a time in RFC 3339 format.
func TimeField(name string, v Value) (time.Time, error) {
	text, err := StringField(name, v)
	if err != nil {
		return time.Time{}, err
	}
	t, err := ParseTime(text)
	if err != nil {
		return time.Time{}, httperr.InvalidField(name, "must be a time like 2026-11-30T12:00:00Z (RFC 3339): "+err.Error()).
			InForm(name + " must be a date and time such as 2026-11-30T12:00.")
	}
	return t, nil
}
