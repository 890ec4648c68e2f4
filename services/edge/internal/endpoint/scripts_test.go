package endpoint

import (
	"io"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// TestScriptsMayReadAPanic: its answer is not the handler's.
func TestScriptsMayReadAPanic(t *testing.T) {
	for _, marked := range []bool{true, false} {
		var ctx fasthttp.RequestCtx
		if marked {
			ctx.SetUserValue(readableByScripts{}, true)
		}
		baseFor("", io.Discard).Fail(&ctx, "", NotFound())
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
	if n := testing.AllocsPerRun(100, func() { allowScripts(c, KeyedScripts) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if ctx.Response.Header.Peek(fiber.HeaderAccessControlAllowOrigin) != nil {
		t.Error("it is readable by scripts")
	}
}
