package httpin

import (
	"errors"
	"fmt"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

func unavailable(message string, cause error) *httperr.Error {
	return &httperr.Error{Status: fiber.StatusServiceUnavailable, Code: httperr.CodeUnavailable, Message: message, RetryAfter: 1, Cause: cause}
}

func internal(cause error) *httperr.Error {
	return &httperr.Error{Status: fiber.StatusInternalServerError, Code: httperr.CodeInternal, Message: httperr.InternalMessage, Cause: cause}
}

func headersTooLarge(limit int) *httperr.Error {
	return &httperr.Error{
		Status: fiber.StatusRequestHeaderFieldsTooLarge, Code: httperr.CodeHeadersTooLarge, Limit: int64(limit),
		Message: fmt.Sprintf("The request line and headers must be at most %d bytes together.", limit),
	}
}

// fromFramework maps errors of Fiber's router and of fasthttp to an Error, and returns others unchanged.
func (s *Server) fromFramework(err error) error {
	e, ok := errors.AsType[*fiber.Error](err)
	if !ok {
		return err
	}
	switch e.Code {
	case fiber.StatusNotFound:
		return &httperr.Error{Status: e.Code, Code: httperr.CodeNotFound, Message: "Nothing exists at this path."}
	case fiber.StatusMethodNotAllowed:
		return &httperr.Error{Status: e.Code, Code: httperr.CodeMethodNotAllowed, Message: "This path does not support the method."}
	case fiber.StatusRequestTimeout:
		return &httperr.Error{
			Status: e.Code, Code: httperr.CodeRequestTimeout,
			Message: fmt.Sprintf("The request header did not arrive within %v.", s.cfg.HeaderTimeout),
		}
	case fiber.StatusRequestEntityTooLarge:
		return httperr.TooLarge(0, "The request is too large.")
	case fiber.StatusRequestHeaderFieldsTooLarge:
		return headersTooLarge(s.cfg.HeaderBytes)
	case fiber.StatusBadRequest, fiber.StatusBadGateway:
		malformed := httperr.Malformed("The request is not valid HTTP.")
		malformed.Cause = e
		return malformed
	}
	return internal(e)
}
