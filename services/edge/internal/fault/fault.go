// Package fault has the errors of the API: a kind that programs branch on, a message for the client, and a cause for the
// operator. Kind.Status is the one place that gives them HTTP statuses.
package fault

import (
	"errors"
	"fmt"
)

// Kind is an error's code in the API.
type Kind string

// The kinds, which docs/openapi.yaml describes.
const (
	Malformed             Kind = "malformed"
	UnknownField          Kind = "unknown_field"
	InvalidField          Kind = "invalid_field"
	InvalidCursor         Kind = "invalid_cursor"
	APIKeyRequired        Kind = "api_key_required"
	InvalidAPIKey         Kind = "invalid_api_key"
	ManageTokenRequired   Kind = "manage_token_required"
	AdminTokenRequired    Kind = "admin_token_required"
	SessionRequired       Kind = "session_required"
	InvalidCredentials    Kind = "invalid_credentials"
	InvalidManageToken    Kind = "invalid_manage_token"
	NotOwner              Kind = "not_owner"
	WrongPassword         Kind = "wrong_password"
	CrossOrigin           Kind = "cross_origin"
	ConfirmationRequired  Kind = "confirmation_required"
	KeyScope              Kind = "key_scope"
	AccountSuspended      Kind = "account_suspended"
	AccountQuarantined    Kind = "account_quarantined"
	NotFound              Kind = "not_found"
	MethodNotAllowed      Kind = "method_not_allowed"
	IdempotencyInFlight   Kind = "idempotency_in_flight"
	IdempotencyMismatch   Kind = "idempotency_mismatch"
	TooManyKeys           Kind = "too_many_keys"
	EmailTaken            Kind = "email_taken"
	DeletionScheduled     Kind = "deletion_scheduled"
	NameTaken             Kind = "name_taken"
	InsufficientCredits   Kind = "insufficient_credits"
	NotRefundable         Kind = "not_refundable"
	PaymentMismatch       Kind = "payment_mismatch"
	PlanCurrent           Kind = "plan_current"
	PaymentsNotConfigured Kind = "payments_not_configured"
	TooManyWebhooks       Kind = "too_many_webhooks"
	PriceBookConflict     Kind = "price_book_conflict"
	VersionMismatch       Kind = "version_mismatch"
	TooLarge              Kind = "too_large"
	UnsupportedMediaType  Kind = "unsupported_media_type"
	RangeNotSatisfiable   Kind = "range_not_satisfiable"
	HeadersTooLarge       Kind = "headers_too_large"
	RequestTimeout        Kind = "request_timeout"
	QuotaExhausted        Kind = "quota_exhausted"
	QuotaHeld             Kind = "quota_held"
	KeyQuotaExhausted     Kind = "key_quota_exhausted"
	SpendingCapReached    Kind = "spending_cap_reached"
	PlanUpgradeRequired   Kind = "plan_upgrade_required"
	AnonymousLimit        Kind = "anonymous_limit"
	RegistrationLimit     Kind = "registration_limit"
	TooManyFailures       Kind = "too_many_failures"
	RateLimited           Kind = "rate_limited"
	Internal              Kind = "internal"
	Unavailable           Kind = "unavailable"
	OutcomeUnknown        Kind = "outcome_unknown"
)

// Status is the HTTP status of the kind, 500 by default.
func (k Kind) Status() int {
	switch k {
	case Malformed, UnknownField, InvalidField, InvalidCursor:
		return 400
	case APIKeyRequired, InvalidAPIKey, ManageTokenRequired, AdminTokenRequired, SessionRequired, InvalidCredentials:
		return 401
	case InvalidManageToken, NotOwner, WrongPassword, CrossOrigin, ConfirmationRequired, KeyScope, AccountSuspended, AccountQuarantined:
		return 403
	case NotFound:
		return 404
	case MethodNotAllowed:
		return 405
	case RequestTimeout:
		return 408
	case IdempotencyInFlight, TooManyKeys, EmailTaken, DeletionScheduled, NameTaken, InsufficientCredits, NotRefundable, PaymentMismatch, PlanCurrent, PaymentsNotConfigured, TooManyWebhooks, PriceBookConflict:
		return 409
	case VersionMismatch:
		return 412
	case TooLarge:
		return 413
	case UnsupportedMediaType:
		return 415
	case RangeNotSatisfiable:
		return 416
	case IdempotencyMismatch:
		return 422
	case QuotaExhausted, QuotaHeld, KeyQuotaExhausted, SpendingCapReached, PlanUpgradeRequired, AnonymousLimit, RegistrationLimit, TooManyFailures, RateLimited:
		return 429
	case HeadersTooLarge:
		return 431
	case Unavailable:
		return 503
	case OutcomeUnknown:
		return 504
	}
	return 500
}

// Error is a failure with a kind.
type Error struct {
	Kind       Kind
	Message    string // for the client
	FormText   string // as httperr.Error.FormText
	RetryAfter int    // seconds until a retry may succeed; 0 if waiting does not help
	Cause      error  // for the log; clients never see it
	Details
}

// Details help the client's developer. Zero fields are left out of the response.
type Details struct {
	Field      string // the body field, parameter or header with the error
	Suggestion string // what the client may have meant: "did you mean `content`?"
	QuotaKey   string
	Limit      *int64 // the limit that was reached or exceeded; may be 0
	ResetMs    int64  // Unix milliseconds after which a retry may succeed
	DeletesMs  int64  // Unix milliseconds at which the account will be deleted
}

// New returns an error of a kind with a message for the client. Without args, format is the message itself.
func New(kind Kind, format string, args ...any) *Error {
	if len(args) == 0 {
		return &Error{Kind: kind, Message: format}
	}
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// InForm sets the text of the error in a form: see httperr.Error.InForm.
func (e *Error) InForm(text string) *Error {
	e.FormText = text
	return e
}

// Because returns a copy of e with a cause.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.Cause = cause
	return &c
}

// Error joins the kind, the message and the cause, if any.
func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Kind, e.Message, e.Cause)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrorCode is the kind as text.
func (e *Error) ErrorCode() string { return string(e.Kind) }

// KindOf is the kind of the first error in err's chain that has one, else Internal. Errors of package httperr have one:
// their code.
func KindOf(err error) Kind {
	if err == nil {
		return Internal
	}
	var coded interface {
		error
		ErrorCode() string
	}
	if errors.As(err, &coded) {
		return Kind(coded.ErrorCode())
	}
	return Internal
}
