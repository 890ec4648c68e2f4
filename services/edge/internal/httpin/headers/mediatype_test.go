package headers

import (
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// A Content-Type with malformed parameters has an unknown charset.
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
