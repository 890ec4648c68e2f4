package input

import (
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin/httperr"
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
		{"line", text("äöüß"), httperr.CodeInvalidField},
		{"line", text("a\nb"), httperr.CodeInvalidField},
		{"line", text("a\u0085"), httperr.CodeInvalidField},
		{"line", Value{Kind: Number, Text: []byte("1")}, httperr.CodeInvalidField},
		{"yes", Value{Kind: Bool, Text: []byte("true")}, ""},
		{"yes", query("false"), ""},
		{"yes", text("true"), httperr.CodeInvalidField},
		{"yes", query("1"), httperr.CodeInvalidField},
		{"count", query("1"), ""},
		{"count", query("100"), ""},
		{"count", query("0"), httperr.CodeInvalidField},
		{"count", query("101"), httperr.CodeInvalidField},
		{"count", query("-1"), httperr.CodeInvalidField},
		{"at", text("2026-11-30T12:00:00Z"), ""},
		{"at", query("2026-11-30t12:00:00.5+02:00"), ""},
		{"at", text("2026-11-30"), httperr.CodeInvalidField},
		{"at", text("2026-11-30T1:00:00Z"), httperr.CodeInvalidField},
		{"at", query("2026-11-30T12:00:00,5Z"), httperr.CodeInvalidField},
		{"at", query("2026-11-30T12:00:00+24:00"), httperr.CodeInvalidField},
		{"at", Value{Kind: Null}, httperr.CodeInvalidField},
		{"other", text(""), httperr.CodeUnknownField},
		{strings.Repeat("ä", 100), text(""), httperr.CodeUnknownField},
	} {
		err := fields.Set(tc.name, tc.v)
		if err == nil && tc.code != "" || err != nil && codeOf(err) != tc.code {
			t.Errorf("%s %q: %v, want %q", tc.name, tc.v.Text, err, tc.code)
		}
	}
}

func TestQueriesAreStrict(t *testing.T) {
	app := fiber.New()
	for query, code := range map[string]string{
		"": "", "a=1&b=2": "", "tag=1&tag=2": "", "a=1&a=2": httperr.CodeInvalidField, "c=1": httperr.CodeUnknownField, "a=%ff": httperr.CodeMalformed,
		strings.Repeat("tag=x&", maxJSONFields+1): httperr.CodeMalformed,
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
