package web

import (
	"io"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// TestScriptsMayReadAPanic: it is answered without its handler.
func TestScriptsMayReadAPanic(t *testing.T) {
	for _, marked := range []bool{true, false} {
		var ctx fasthttp.RequestCtx
		if marked {
			ctx.SetUserValue(readableByScripts{}, true)
		}
		serverFor(Config{}, io.Discard).fail(&ctx, "", notFound())
		if got := len(ctx.Response.Header.Peek("Access-Control-Allow-Origin")) > 0; got != marked {
			t.Errorf("readable: %v, want %v", got, marked)
		}
	}
}

// TestACallOfNoPageAllocatesNothing: most calls of the API have no Origin.
func TestACallOfNoPageAllocatesNothing(t *testing.T) {
	app := fiber.New()
	ctx := &fasthttp.RequestCtx{}
	ctx.Request.Header.Set(headerAPIKey, "qk_x")
	c := app.AcquireCtx(ctx)
	defer app.ReleaseCtx(c)
	if n := testing.AllocsPerRun(100, func() { allowScripts(c, keyedScripts) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if ctx.Response.Header.Peek(fiber.HeaderAccessControlAllowOrigin) != nil {
		t.Error("it is readable by scripts")
	}
}

// TestScriptsReadTheKeyedAPIAndRawContentOnly holds the whole table to docs/api.md, From a browser's script.
func TestScriptsReadTheKeyedAPIAndRawContentOnly(t *testing.T) {
	for _, r := range (&Server{}).routes() {
		want := neverScripts
		switch {
		case strings.HasPrefix(r.path, "/api/dev/"):
			want = keyedScripts
			if r.who != apiKey && r.who != keyOrKeyless && r.who != keyOrToken {
				t.Errorf("%s %s takes another proof than a key", r.method, r.path)
			}
		case strings.HasSuffix(r.path, "/raw"):
			want = anyScripts
			if r.who != anybody || r.method != "GET" {
				t.Errorf("%s %s is not for everybody", r.method, r.path)
			}
		}
		if r.scripts() != want {
			t.Errorf("%s %s: %d, want %d", r.method, r.path, r.scripts(), want)
		}
	}
}
