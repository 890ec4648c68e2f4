package headers

import (
	"testing"

	"github.com/valyala/fasthttp"
)

func TestAcceptIsReadWithItsQualities(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                             false,
		"*/*":                          false,
		"application/*":                false,
		"application/json":             true,
		"Application/JSON":             true,
		"application/json;q=0":         false,
		"application/json; q=0.0":      false,
		"application/json;q=0.001":     true,
		"text/plain, application/json": true,
		"text/plain;q=0.9, application/json;q=0.8": false,
		"text/plain;q=0.8,application/json;q=0.9":  true,
		"text/html, application/json; Q=0.5":       true,
		"application/json;q=high":                  true,
		"application/jsonp":                        false,
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.Set("Accept", accept)
		if got := Prefers(&ctx, "application/json", "text/plain"); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.Add("Accept", "text/plain")
	ctx.Request.Header.Add("Accept", "application/json;q=0.5")
	if Prefers(&ctx, "application/json", "text/plain") {
		t.Error("only one of two headers is read")
	}
}
