// Package httperr has the errors that map to an HTTP status: a code for programs, a message for people, and hints for the
// developer of a client.
package httperr

import (
	"fmt"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Error is a failure with its HTTP status.
type Error struct {
	Status     int
	Code       string // for programs
	Message    string // for people
	FormText   string // replaces Message in a form for people; empty: Message fits
	Field      string // invalid field of the body, parameter or header; empty: none
	Suggestion string // what the client may have meant, for people; empty: none
	Limit      int64  // the limit exceeded; 0: none
	RetryAfter int    // seconds before a retry may succeed; 0: retrying does not help
	Cause      error  // logged, never shown to clients
}

// Error codes and their statuses.
const (
	CodeMalformed            = "malformed"              // 400
	CodeUnknownField         = "unknown_field"          // 400
	CodeInvalidField         = "invalid_field"          // 400
	CodeNotFound             = "not_found"              // 404
	CodeMethodNotAllowed     = "method_not_allowed"     // 405
	CodeRequestTimeout       = "request_timeout"        // 408
	CodeVersionMismatch      = "version_mismatch"       // 412
	CodeTooLarge             = "too_large"              // 413
	CodeUnsupportedMediaType = "unsupported_media_type" // 415
	CodeRangeNotSatisfiable  = "range_not_satisfiable"  // 416
	CodeHeadersTooLarge      = "headers_too_large"      // 431
	CodeInternal             = "internal"               // 500
	CodeUnavailable          = "unavailable"            // 503
)

// Messages of failures that are not the client's fault.
const (
	InternalMessage    = "Something went wrong on our side."
	UnavailableMessage = "The service is not available at the moment. Try again."
)

// Error is the code and message, and the cause if any.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.Cause)
	}
	return e.Code + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrorCode returns the code, for packages that inspect errors without importing this one.
func (e *Error) ErrorCode() string { return e.Code }

// Malformed is the 400 for a request that can't be parsed.
func Malformed(format string, args ...any) *Error {
	return &Error{Status: fiber.StatusBadRequest, Code: CodeMalformed, Message: fmt.Sprintf(format, args...)}
}

// InvalidField is the 400 for an invalid value; why completes the sentence "<name> …".
func InvalidField(name, why string) *Error {
	name = shorten(name)
	return &Error{Status: fiber.StatusBadRequest, Code: CodeInvalidField, Field: name, Message: name + " " + why + "."}
}

// InForm sets the text of the error in a form, where the fields have labels and no JSON. Text that begins with the name of the field gets
// its label there.
func (e *Error) InForm(text string) *Error {
	e.FormText = text
	return e
}

// OverLimit is InvalidField for a value over a limit, which why names.
func OverLimit(name string, limit int64, why string) *Error {
	e := InvalidField(name, why)
	e.Limit = limit
	return e
}

// NotAnOption is InvalidField for a value other than the field's options.
func NotAnOption(name, value string, options ...string) *Error {
	last := len(options) - 1
	e := InvalidField(name, "must be "+strings.Join(options[:last], ", ")+" or "+options[last])
	e.Suggestion = suggest(value, options)
	if len(options) > 5 {
		e.FormText = name + " must be one of the list."
	}
	return e
}

// UnknownField is the 400 for an unknown field. known are the valid ones.
func UnknownField(name string, known ...string) *Error { return unknown("field", name, known) }

// UnknownParameter is UnknownField for a query parameter.
func UnknownParameter(name string, known ...string) *Error {
	return unknown("query parameter", name, known)
}

func unknown(what, name string, known []string) *Error {
	short := shorten(name)
	return &Error{
		Status: fiber.StatusBadRequest, Code: CodeUnknownField, Message: fmt.Sprintf("Unknown %s %q.", what, short),
		Field: short, Suggestion: suggest(name, known),
	}
}

// TooLarge is the 413 for a body or a part of it. limit is in bytes; 0: unknown.
func TooLarge(limit int64, format string, args ...any) *Error {
	return &Error{Status: fiber.StatusRequestEntityTooLarge, Code: CodeTooLarge, Limit: limit, Message: fmt.Sprintf(format, args...)}
}

// UnsupportedMediaType is the 415 for a body in a format that the endpoint does not accept.
func UnsupportedMediaType(message string) *Error {
	return &Error{Status: fiber.StatusUnsupportedMediaType, Code: CodeUnsupportedMediaType, Message: message}
}

// shorten truncates a client's text for a message.
func shorten(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "…"
	}
	return s
}
