package web

import (
	"bytes"
	"mime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/fault"
)

// invalidField is the 400 for a field whose value will not do; why ends the sentence "<name> …".
func invalidField(name, why string) error {
	return fault.New(fault.InvalidField, "%s %s.", name, why)
}

// unknownField is the 400 for a field or query parameter that does not exist.
func unknownField(name string) error {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	return fault.New(fault.UnknownField, "Unknown field %q.", name)
}

// mediaType is the request's Content-Type without parameters, lower case; "" where there is none or
// it makes no sense. charset is in lower case.
func mediaType(c *fiber.Ctx) (name, charset string, params map[string]string) {
	raw := string(c.Request().Header.ContentType())
	name, params, err := mime.ParseMediaType(raw)
	if err != nil {
		return strings.ToLower(strings.TrimSpace(strings.Split(raw, ";")[0])), "", nil
	}
	return name, strings.ToLower(params["charset"]), params
}

func utf8Charset(charset string) bool {
	return charset == "" || charset == "utf-8" || charset == "utf8" || charset == "us-ascii"
}

// requireJSON refuses, with 415, a body that says to be anything but JSON. One that says nothing
// is read as JSON.
func requireJSON(c *fiber.Ctx) error {
	name, charset, _ := mediaType(c)
	if (name == "" || name == "application/json") && utf8Charset(charset) {
		return nil
	}
	return fault.New(fault.UnsupportedMediaType, "Content-Type must be application/json, in UTF-8.")
}

// queryFields calls field for every query parameter, as for the members of a JSON object. A
// parameter that comes twice is 400, but for the names in repeatable.
func queryFields(c *fiber.Ctx, field func(name string, v value) error, repeatable ...string) error {
	var seen []string
	var err error
	c.Context().QueryArgs().VisitAll(func(k, v []byte) {
		if err != nil {
			return
		}
		name := string(k)
		if !utf8.ValidString(name) || !utf8.Valid(v) {
			err = malformed("The query is not valid UTF-8.")
			return
		}
		for _, n := range seen {
			if n == name && !isOneOf(name, repeatable) {
				err = invalidField(name, "must be given once")
				return
			}
		}
		if len(seen) >= maxJSONFields {
			err = malformed("There are too many query parameters.")
			return
		}
		seen = append(seen, name)
		err = field(name, value{kind: kindQuery, text: bytes.Clone(v)})
	})
	return err
}

// noQuery refuses every query parameter.
func noQuery(c *fiber.Ctx) error {
	return queryFields(c, func(name string, _ value) error { return unknownField(name) })
}

func isOneOf(s string, list []string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// stringField is the field as text.
func stringField(name string, v value) (string, error) {
	if v.kind != kindString && v.kind != kindQuery {
		return "", invalidField(name, "must be a string")
	}
	return string(v.text), nil
}

// lineField is a stringField of one line, of at most max characters, without control characters.
func lineField(name string, v value, max int) (string, error) {
	s, err := stringField(name, v)
	if err != nil {
		return "", err
	}
	if utf8.RuneCountInString(s) > max {
		return "", invalidField(name, "must have at most "+strconv.Itoa(max)+" characters")
	}
	if hasControl(s) {
		return "", invalidField(name, "must not contain control characters")
	}
	return s, nil
}

func hasControl(s string) bool {
	for _, r := range s {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return true
		}
	}
	return false
}

// boolField is the field as true or false.
func boolField(name string, v value) (bool, error) {
	if v.kind == kindBool || v.kind == kindQuery {
		switch string(v.text) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, invalidField(name, "must be true or false")
}

// The bounds of a lifetime (contract.md, Pastes and quick pastes). A year is 365 days.
const (
	day             = 24 * time.Hour
	minLifetime     = time.Minute
	maxLifetime     = 3650 * day
	keylessLifetime = 30 * day
)

// lifetimeField reads expiresIn; 0 is never. Of a keyless caller it must be within longest.
func lifetimeField(name string, v value, longest time.Duration) (time.Duration, error) {
	d, ok := parseLifetime(v)
	if !ok {
		return 0, invalidField(name, `must be a whole number of seconds, or a number with one of m, h, d, w, y like "10m", or "never"`)
	}
	if d == 0 {
		if longest < maxLifetime {
			return 0, invalidField(name, "must not be \"never\" without an API key: at most 30 days")
		}
		return 0, nil
	}
	if d < minLifetime || d > longest {
		return 0, invalidField(name, "must be between 1 minute and "+lifetimeName(longest))
	}
	return d, nil
}

func lifetimeName(d time.Duration) string {
	if d == maxLifetime {
		return "10 years (3650 days)"
	}
	return strconv.Itoa(int(d/day)) + " days without an API key"
}

// parseLifetime gives 0 for "never". Anything longer than is ever allowed comes out as longer than
// maxLifetime, anything shorter than a second as a nanosecond.
func parseLifetime(v value) (time.Duration, bool) {
	text := string(v.text)
	unit := time.Second
	switch v.kind {
	case kindNumber:
	case kindString, kindQuery:
		if text == "never" {
			return 0, true
		}
		if text == "" {
			return 0, false
		}
		last := text[len(text)-1]
		if u, ok := lifetimeUnit(last); ok {
			unit, text = u, text[:len(text)-1]
		} else if v.kind == kindString {
			return 0, false
		}
		if text == "" || text[0] == '+' {
			return 0, false
		}
	default:
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return overlong(text)
	}
	switch {
	case n <= 0:
		return 1, true
	case n > int64(maxLifetime/unit):
		return maxLifetime + 1, true
	}
	return time.Duration(n) * unit, true
}

// overlong tells a number that is too large from what is no whole number.
func overlong(text string) (time.Duration, bool) {
	digits := strings.TrimPrefix(text, "-")
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return 0, false
		}
	}
	return maxLifetime + 1, digits != ""
}

func lifetimeUnit(c byte) (time.Duration, bool) {
	switch c {
	case 'm':
		return time.Minute, true
	case 'h':
		return time.Hour, true
	case 'd':
		return day, true
	case 'w':
		return 7 * day, true
	case 'y':
		return 365 * day, true
	}
	return 0, false
}

// instantField reads expiresAt, which must be a lifetime away from now that expiresIn would allow.
func instantField(name string, v value, now time.Time, longest time.Duration) (time.Time, error) {
	text, err := stringField(name, v)
	if err != nil {
		return time.Time{}, err
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, invalidField(name, "must be a time like 2026-11-30T12:00:00Z (RFC 3339)")
	}
	if left := t.Sub(now); left < minLifetime || left > longest {
		return time.Time{}, invalidField(name, "must be between 1 minute and "+lifetimeName(longest)+" from now")
	}
	return t, nil
}
