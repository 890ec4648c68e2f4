package endpoint

import (
	"time"

	"github.com/valyala/fasthttp"

	"quire.dev/pkg/trace"
	"quire.dev/services/edge/internal/httpin"
)

// beginTrace begins the span of a call, if it is sampled.
func (s *Base) beginTrace(c *Call) {
	header := string(c.Context().Request.Header.Peek("Traceparent"))
	c.Timing.Span = s.traces.Begin(c.Row.Method+" "+c.Row.Path, header, httpin.Started(c.Ctx))
}

// endTrace ends the span of an answered call, whose fiber.Ctx is gone. It has no path, address or content, like the access log.
func endTrace(ctx *fasthttp.RequestCtx, c *Call, a *httpin.Answer) {
	span, status := c.Timing.Span, ctx.Response.StatusCode()
	span.Set(trace.Text("quire.request_id", a.RequestID), trace.Text("http.request.method", c.Row.Method), trace.Text("http.route", c.Row.Path),
		trace.Number("http.response.status_code", status))
	if id := clientRequestID(&ctx.Request.Header); id != nil {
		span.Set(trace.Text("quire.client_request_id", string(id)))
	}
	if c.Who.Account != 0 {
		span.Set(trace.Text("quire.account", c.Who.Account.String()))
	}
	if a.BodyWait > 0 {
		span.Set(trace.Number("quire.body_wait_us", a.BodyWait.Microseconds()))
	}
	if c.failure != "" {
		span.Set(trace.Text("error.type", string(c.failure)))
	}
	if status >= 500 {
		span.Fail(string(c.failure))
	}
	span.End(a.Started.Add(a.Took))
}

// Blob adds the time since began to what the call took in the blob store.
func (c *Call) Blob(began time.Time) {
	c.Timing.Blob += time.Since(began)
	c.Timing.Span.Part("blob store", began, time.Now())
}
