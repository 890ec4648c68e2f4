package web

import (
	"errors"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin"
)

// unavailable is a 503 with a cause for the log.
func unavailable(cause error) *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Message: httpin.UnavailableMessage, RetryAfter: 1, Cause: cause}
}

func notFound() *fault.Error { return fault.New(fault.NotFound, "Not found.") }

// asFault is err as an error of the API. One that is none is internal, and err its cause.
func asFault(err error) *fault.Error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e
	}
	if in, ok := errors.AsType[*httpin.Error](err); ok {
		return &fault.Error{Kind: fault.Kind(in.Code), Message: in.Message, RetryAfter: in.RetryAfter, Cause: in.Cause}
	}
	return fault.New(fault.Internal, httpin.InternalMessage).Because(err)
}

// fail answers a failed request: the one place where errors become HTTP. It is httpin.Config.Fail.
func (s *Server) fail(ctx *fasthttp.RequestCtx, route string, err error) {
	e := asFault(err)
	h := &ctx.Response.Header
	status := e.Kind.Status()
	if status >= fiber.StatusInternalServerError && e.Cause != nil { // without a cause there is nothing for an operator
		s.log.Error("request failed", "request", string(h.Peek(fiber.HeaderXRequestID)),
			"method", string(ctx.Method()), "route", route, "error", e.Error())
	}
	h.Del(fiber.HeaderETag)
	h.Del(fiber.HeaderContentDisposition)
	retry := e.RetryAfter
	if retry == 0 && (e.Kind == fault.Unavailable || e.Kind == fault.OutcomeUnknown) {
		retry = 1
	}
	if retry > 0 {
		h.Set(fiber.HeaderRetryAfter, strconv.Itoa(retry))
	}
	if status == fiber.StatusUnauthorized {
		h.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="quire"`)
	}
	ctx.Response.ResetBody()
	ctx.SetStatusCode(status)
	h.SetContentType(contentTypeJSON)
	h.Set(fiber.HeaderCacheControl, "no-store")
	ctx.SetBody(object(`{"success":false`).str("reason", e.Message).str("code", string(e.Kind)).end())
}
