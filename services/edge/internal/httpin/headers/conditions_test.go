package headers

import (
	"errors"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/httpin/httperr"
)

const (
	before = "Sun, 29 Nov 2026 23:59:59 GMT"
	same   = "Mon, 30 Nov 2026 00:00:00 GMT"
	after  = "Mon, 30 Nov 2026 00:00:01 GMT"
)

func TestConditionsAreEvaluatedInTheOrderOfRFC9110(t *testing.T) {
	const ifMatch, ifNoneMatch, modified, unmodified = "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"
	app := fiber.New()
	dated := Validators{ETag: "now", ModifiedMs: time.Date(2026, 11, 30, 0, 0, 0, 999e6, time.UTC).UnixMilli()}
	undated := Validators{ETag: "now"}
	for _, tc := range []struct {
		method string
		v      Validators
		header []string
		status int
		field  string
	}{
		{"GET", dated, nil, 200, ""},
		{"GET", dated, []string{modified, before}, 200, ""},
		{"GET", dated, []string{modified, same}, 304, ""}, // the stored time is truncated to seconds
		{"GET", dated, []string{modified, after}, 304, ""},
		{"HEAD", dated, []string{modified, same}, 304, ""},
		{"PUT", dated, []string{modified, same}, 200, ""},
		{"DELETE", dated, []string{modified, same}, 200, ""},
		{"GET", undated, []string{modified, after}, 200, ""},
		{"GET", dated, []string{modified, "yesterday"}, 200, ""},
		{"GET", dated, []string{modified, after, modified, after}, 200, ""},
		{"GET", dated, []string{modified, after + ", " + after}, 200, ""},
		{"GET", dated, []string{unmodified, before}, 412, unmodified},
		{"GET", dated, []string{unmodified, same}, 200, ""},
		{"GET", dated, []string{unmodified, after}, 200, ""},
		{"HEAD", dated, []string{unmodified, before}, 412, unmodified},
		{"PUT", dated, []string{unmodified, before}, 412, unmodified},
		{"PUT", dated, []string{unmodified, same}, 200, ""},
		{"DELETE", dated, []string{unmodified, before}, 412, unmodified},
		{"GET", undated, []string{unmodified, before}, 200, ""},
		{"GET", dated, []string{unmodified, "2026-11-29T00:00:00Z"}, 200, ""},
		{"GET", dated, []string{unmodified, before, unmodified, before}, 200, ""},
		// If-Match before If-Unmodified-Since.
		{"GET", dated, []string{ifMatch, `"now"`, unmodified, before}, 200, ""},
		{"PUT", dated, []string{ifMatch, "*", unmodified, before}, 200, ""},
		{"GET", dated, []string{ifMatch, `"other"`, unmodified, after}, 412, ifMatch},
		// If-None-Match before If-Modified-Since.
		{"GET", dated, []string{ifNoneMatch, `"other"`, modified, after}, 200, ""},
		{"GET", dated, []string{ifNoneMatch, `"now"`, modified, before}, 304, ""},
		{"GET", dated, []string{ifNoneMatch, `W/"now"`}, 304, ""},
		{"GET", undated, []string{ifNoneMatch, "*"}, 304, ""},
		{"PUT", dated, []string{ifNoneMatch, `"now"`}, 412, ifNoneMatch},
		{"PUT", dated, []string{ifNoneMatch, "*"}, 412, ifNoneMatch},
		{"PUT", dated, []string{ifNoneMatch, `"other"`}, 200, ""},
		// A failed condition precedes a 304.
		{"GET", dated, []string{ifMatch, `"now"`, ifNoneMatch, `"now"`}, 304, ""},
		{"GET", dated, []string{unmodified, before, ifNoneMatch, `"now"`}, 412, unmodified},
		{"GET", dated, []string{unmodified, before, modified, after}, 412, unmodified},
		{"GET", dated, []string{unmodified, same, modified, same}, 304, ""},
		{"GET", dated, []string{ifMatch, "now"}, 400, ifMatch},
		{"GET", dated, []string{ifMatch, `, "other",, "now" ,`}, 200, ""}, // empty elements are ignored
		{"GET", dated, []string{ifMatch, ""}, 400, ifMatch},
		{"GET", dated, []string{ifNoneMatch, " , ,"}, 400, ifNoneMatch},
		{"GET", dated, []string{ifNoneMatch, `"other" "now"`}, 400, ifNoneMatch},
		{"GET", dated, []string{ifNoneMatch, "now"}, 400, ifNoneMatch},
	} {
		request := &fasthttp.RequestCtx{}
		request.Request.Header.SetMethod(tc.method)
		for n := 0; n < len(tc.header); n += 2 {
			request.Request.Header.Add(tc.header[n], tc.header[n+1])
		}
		c := app.AcquireCtx(request) // parses the method
		status, field := 200, ""
		conditions, err := ReadConditions(c)
		known := false
		if err == nil {
			known, err = conditions.Check(tc.v)
		}
		var e *httperr.Error
		switch {
		case errors.As(err, &e):
			status, field = e.Status, e.Field
		case known:
			status = 304
		}
		if status != tc.status || field != tc.field {
			t.Errorf("%s %v: %d %q, want %d %q", tc.method, tc.header, status, field, tc.status, tc.field)
		}
		app.ReleaseCtx(c)
	}
}

func TestDatesOfHTTPHaveThreeForms(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"Sun, 06 Nov 1994 08:49:37 GMT":     "1994-11-06T08:49:37Z",
		"Sunday, 06-Nov-94 08:49:37 GMT":    "1994-11-06T08:49:37Z",
		"Sun Nov  6 08:49:37 1994":          "1994-11-06T08:49:37Z",
		"Mon Nov 30 08:49:37 2026":          "2026-11-30T08:49:37Z",
		" Sun, 06 Nov 1994 08:49:37 GMT\t":  "1994-11-06T08:49:37Z",
		"Mon, 06 Nov 1994 08:49:37 GMT":     "1994-11-06T08:49:37Z", // a Sunday
		"Monday, 30-Nov-26 12:00:00 GMT":    "2026-11-30T12:00:00Z",
		"Friday, 30-Nov-76 12:00:00 GMT":    "2076-11-30T12:00:00Z", // 50 years from now
		"Friday, 30-Nov-76 12:00:01 GMT":    "1976-11-30T12:00:01Z", // more than 50 years
		"Sunday, 30-Nov-70 12:00:00 GMT":    "2070-11-30T12:00:00Z",
		"Thursday, 01-Jan-77 00:00:00 GMT":  "1977-01-01T00:00:00Z",
		"Sat, 31 Dec 2016 23:59:60 GMT":     "2017-01-01T00:00:00Z",
		"Sat, 29 Feb 2024 00:00:00 GMT":     "2024-02-29T00:00:00Z",
		"Fri, 31 Dec 9999 23:59:59 GMT":     "9999-12-31T23:59:59Z",
		"":                                  "",
		"0":                                 "",
		"1994-11-06T08:49:37Z":              "",
		"Sun, 6 Nov 1994 08:49:37 GMT":      "",
		"Sun, 06 Nov 94 08:49:37 GMT":       "",
		"Sun, 06 Nov 1994 8:49:37 GMT":      "",
		"Sun, 06 Nov 1994 08:49:37.5 GMT":   "",
		"Sun, 06 Nov 1994 08:49:37,5 GMT":   "",
		"Sun, 06 Nov 1994 08:49:37":         "",
		"Sun, 06 Nov 1994 08:49:37 UTC":     "",
		"Sun, 06 Nov 1994 08:49:37 +0000":   "",
		"Sun, 06 Nov 1994 08:49:37 gmt":     "",
		"sun, 06 nov 1994 08:49:37 GMT":     "",
		"Sun, 06 NOV 1994 08:49:37 GMT":     "",
		"Son, 06 Nov 1994 08:49:37 GMT":     "",
		"Sun,  06 Nov 1994 08:49:37 GMT":    "",
		"Sun, 31 Nov 1994 08:49:37 GMT":     "",
		"Sun, 29 Feb 2026 08:49:37 GMT":     "",
		"Sun, 06 Nov 1994 24:00:00 GMT":     "",
		"Sun, 06 Nov 1994 08:60:00 GMT":     "",
		"Sun, 06 Nov 1994 08:49:60 GMT":     "",
		"Sun, 06-Nov-1994 08:49:37 GMT":     "",
		"Sunday, 06-Nov-94 08:49:37 EST":    "",
		"Sun Nov 6 08:49:37 1994":           "",
		"Sun Nov 06 08:49:37 1994":          "",
		"Sun Nov  6 08:49:37 1994 GMT":      "",
		"Sun, 06 Nov 1994 08:49:37 GMT, x":  "",
		"Sun, 06 Nov 1994 08:49:37 GMT\x00": "",
	} {
		got, ok := parseHTTPDate(text, now)
		if ok != (want != "") || ok && got.Format(time.RFC3339) != want {
			t.Errorf("%q: %v %v, want %q", text, got, ok, want)
		}
	}
}

func TestARangeIsSentWhereIfRangeNamesTheSameBytes(t *testing.T) {
	app := fiber.New()
	moment := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixMilli()
	for _, tc := range []struct {
		ifRange string
		settled bool
		applies bool
	}{
		{"", false, true},
		{`"tag"`, false, true},
		{`W/"tag"`, true, false},
		{`"other"`, true, false},
		{"tag", true, false},
		{same, true, true},
		{"Monday, 30-Nov-26 00:00:00 GMT", true, true},
		{"Mon Nov 30 00:00:00 2026", true, true},
		{same, false, false}, // a second change within that second would go unnoticed
		{before, true, false},
		{after, true, false}, // only Last-Modified itself matches
		{"tomorrow", true, false},
	} {
		c := app.AcquireCtx(&fasthttp.RequestCtx{})
		if tc.ifRange != "" {
			c.Request().Header.Set("If-Range", tc.ifRange)
		}
		src := &Ranged{Validators: Validators{ETag: "tag", ModifiedMs: moment, Settled: tc.settled}}
		if got := rangeApplies(c, src); got != tc.applies {
			t.Errorf("%q: %v", tc.ifRange, got)
		}
		app.ReleaseCtx(c)
	}
}
