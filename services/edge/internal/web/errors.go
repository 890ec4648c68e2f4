package web

import (
	"errors"
	"strconv"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/fault"
)

const (
	internalMessage    = "Something went wrong on our side."
	unavailableMessage = "The service is not available at the moment. Try again."
)

// unavailable is a 503 with what an operator should see.
func unavailable(cause error) *fault.Error {
	return &fault.Error{Kind: fault.Unavailable, Message: unavailableMessage, RetryAfter: 1, Cause: cause}
}

func notFound() *fault.Error { return fault.New(fault.NotFound, "Not found.") }

// onError answers a failed request: the one place where errors become HTTP. It also gets what the
// framework and the server say of a path, a method or a header.
func (s *Server) onError(c *fiber.Ctx, err error) error {
	ctx := c.Context()
	if len(ctx.Response.Header.Peek(fiber.HeaderXRequestID)) == 0 {
		setRequestID(ctx, event.NewRequestID())
	}
	var e *fault.Error
	var fe *fiber.Error
	switch {
	case errors.As(err, &e):
	case errors.As(err, &fe):
		if fe.Code == fiber.StatusMethodNotAllowed {
			return methodNotAllowed(c)
		}
		e = fromFramework(fe)
	default:
		e = fault.New(fault.Internal, internalMessage).Because(err)
	}
	if e.Kind.Status() >= fiber.StatusInternalServerError {
		s.log.Error("request failed", "request", string(ctx.Response.Header.Peek(fiber.HeaderXRequestID)),
			"method", c.Method(), "route", c.Route().Path, "error", e.Error())
	}
	writeFailure(ctx, e)
	return nil
}

func methodNotAllowed(c *fiber.Ctx) error {
	c.Append(fiber.HeaderAllow, fiber.MethodOptions)
	if c.Method() == fiber.MethodOptions {
		c.Status(fiber.StatusNoContent)
		return nil
	}
	writeFailure(c.Context(), fault.New(fault.MethodNotAllowed, "The method is not allowed here."))
	return nil
}

func fromFramework(e *fiber.Error) *fault.Error {
	switch e.Code {
	case fiber.StatusNotFound:
		return fault.New(fault.NotFound, "There is nothing at this path.")
	case fiber.StatusRequestTimeout:
		return fault.New(fault.RequestTimeout, "The request did not arrive in time.")
	case fiber.StatusRequestEntityTooLarge:
		return fault.New(fault.TooLarge, "The request is too large.")
	case fiber.StatusRequestHeaderFieldsTooLarge:
		return fault.New(fault.HeadersTooLarge, "The request header is too large.")
	case fiber.StatusBadRequest, fiber.StatusBadGateway:
		return fault.New(fault.Malformed, "The request is not valid HTTP.").Because(e)
	}
	return fault.New(fault.Internal, internalMessage).Because(e)
}

// writeFailure writes the contract's error, keeping the headers set so far.
func writeFailure(ctx *fasthttp.RequestCtx, e *fault.Error) {
	h := &ctx.Response.Header
	h.Del(fiber.HeaderETag)
	h.Del(fiber.HeaderContentDisposition)
	retry := e.RetryAfter
	if retry == 0 && (e.Kind == fault.Unavailable || e.Kind == fault.OutcomeUnknown) {
		retry = 1
	}
	if retry > 0 {
		h.Set(fiber.HeaderRetryAfter, strconv.Itoa(retry))
	}
	status := e.Kind.Status()
	if status == fiber.StatusUnauthorized {
		h.Set(fiber.HeaderWWWAuthenticate, `Bearer realm="quire"`)
	}
	ctx.Response.ResetBody()
	ctx.SetStatusCode(status)
	h.SetContentType(contentTypeJSON)
	h.Set(fiber.HeaderCacheControl, "no-store")
	ctx.SetBody(appendFailure(nil, e.Kind, e.Message))
}

func appendFailure(dst []byte, kind fault.Kind, reason string) []byte {
	dst = append(dst, `{"success":false,"reason":`...)
	dst = appendString(dst, reason)
	dst = append(dst, `,"code":`...)
	dst = appendString(dst, string(kind))
	return append(dst, '}')
}
