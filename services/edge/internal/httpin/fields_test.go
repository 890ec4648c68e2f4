package httpin

import (
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

func TestFieldsAreHeldToTheirKindsAndLimits(t *testing.T) {
	text := func(s string) Value { return Value{Kind: String, Text: []byte(s)} }
	query := func(s string) Value { return Value{Kind: Query, Text: []byte(s)} }
	var (
		line  string
		yes   bool
		count uint64
		at    time.Time
	)
	fields := Fields{"line": To(&line, Line(3)), "yes": To(&yes, BoolField), "count": To(&count, CountField(100)), "at": To(&at, TimeField)}
	for _, tc := range []struct {
		name string
		v    Value
		code string // "": taken
	}{
		{"line", text("äöü"), ""},
		{"line", query("äöü"), ""},
		{"line", text("äöüß"), CodeInvalidField},
		{"line", text("a\nb"), CodeInvalidField},
		{"line", text("a\u0085"), CodeInvalidField},
		{"line", Value{Kind: Number, Text: []byte("1")}, CodeInvalidField},
		{"yes", Value{Kind: Bool, Text: []byte("true")}, ""},
		{"yes", query("false"), ""},
		{"yes", text("true"), CodeInvalidField},
		{"yes", query("1"), CodeInvalidField},
		{"count", query("1"), ""},
		{"count", query("100"), ""},
		{"count", query("0"), CodeInvalidField},
		{"count", query("101"), CodeInvalidField},
		{"count", query("-1"), CodeInvalidField},
		{"at", text("2026-11-30T12:00:00Z"), ""},
		{"at", query("2026-11-30t12:00:00.5+02:00"), ""},
		{"at", text("2026-11-30"), CodeInvalidField},
		{"at", text("2026-11-30T1:00:00Z"), CodeInvalidField},
		{"at", query("2026-11-30T12:00:00,5Z"), CodeInvalidField},
		{"at", query("2026-11-30T12:00:00+24:00"), CodeInvalidField},
		{"at", Value{Kind: Null}, CodeInvalidField},
		{"other", text(""), CodeUnknownField},
		{strings.Repeat("ä", 100), text(""), CodeUnknownField},
	} {
		err := fields.Set(tc.name, tc.v)
		if err == nil && tc.code != "" || err != nil && codeOf(err) != tc.code {
			t.Errorf("%s %q: %v, want %q", tc.name, tc.v.Text, err, tc.code)
		}
	}
}

// A Content-Type whose parameters can't be read names no charset that anybody knows.
func TestTheCharsetOfABodyIsRead(t *testing.T) {
	app := fiber.New()
	for _, tc := range []struct {
		sent, name string
		utf8       bool
	}{
		{"", "", true},
		{"text/plain", "text/plain", true},
		{"Text/Plain; Charset=UTF-8", "text/plain", true},
		{"text/plain;charset=\"utf-8\"", "text/plain", true},
		{"text/plain;", "text/plain", true},
		{"text/plain; ;; charset=utf-8 ;", "text/plain", true},
		{"text/plain; a=\";;\\\"; ;\"; charset=utf-8", "text/plain", true},
		{"text/plain;; charset=latin1", "text/plain", false},
		{"text/plain; charset=utf-8; charset=latin1", "text/plain", false},
		{"text/plain; charset=latin1; charset=utf-8", "text/plain", false},
		{"text/plain; charset", "text/plain", false},
		{"text/plain; charset=utf-16; =", "text/plain", false},
		{"text/plain; charset=latin1; a=\"b", "text/plain", false},
		{"application/json; a b=c", "application/json", false},
	} {
		c := app.AcquireCtx(&fasthttp.RequestCtx{})
		c.Request().Header.SetContentType(tc.sent)
		if name, charset, _ := MediaType(c); name != tc.name || UTF8(charset) != tc.utf8 {
			t.Errorf("%q is %q in %q", tc.sent, name, charset)
		}
		app.ReleaseCtx(c)
	}
}

func TestQueriesAreStrict(t *testing.T) {
	app := fiber.New()
	for query, code := range map[string]string{
		"": "", "a=1&b=2": "", "tag=1&tag=2": "", "a=1&a=2": CodeInvalidField, "c=1": CodeUnknownField, "a=%ff": CodeMalformed,
		strings.Repeat("tag=x&", maxJSONFields+1): CodeMalformed,
	} {
		c := app.AcquireCtx(&fasthttp.RequestCtx{})
		c.Request().SetRequestURI("/?" + query)
		var a, b, tag string
		err := QueryFields(c, Fields{"a": To(&a, StringField), "b": To(&b, StringField), "tag": To(&tag, StringField)}.Set, "tag")
		if err == nil && code != "" || err != nil && codeOf(err) != code {
			t.Errorf("%.40q: %v, want %q", query, err, code)
		}
		if err := NoQuery(c); (err == nil) != (query == "") {
			t.Errorf("%.40q where none is taken: %v", query, err)
		}
		app.ReleaseCtx(c)
	}
}
