package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// APIError is an error response of the service. Branch on Code, or use errors.As with a type such as *QuotaExhaustedError.
// Codes may be added: handle unknown ones by Status. Failed calls cost nothing.
type APIError struct {
	Status     int           // of HTTP, such as 404
	Code       string        // why, for programs, such as "not_found"
	Reason     string        // why, for people
	Field      string        // the field, query parameter or header with the error, if any
	Suggestion string        // what you may have meant
	QuotaKey   string        // of a refused call
	Limit      int64         // that was reached or exceeded; sizes in bytes
	ResetAt    time.Time     // when a retry may succeed; zero if waiting does not help
	DeletesAt  time.Time     // with the code "deletion_scheduled": when the account will be deleted
	UpgradeURL string        // page to upgrade the plan
	Docs       string        // URL of the code's documentation
	RequestID  string        // for the operator to look up the call
	RetryAfter time.Duration // until a retry may succeed; 0 if not known
}

// Error has the reason, the status, the code and the request's id.
func (e *APIError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "quire: %s (%d", e.Reason, e.Status)
	if e.Code != "" {
		b.WriteString(" " + e.Code)
	}
	if e.RequestID != "" {
		b.WriteString(", request " + e.RequestID)
	}
	b.WriteString(")")
	if e.Suggestion != "" {
		b.WriteString(": " + e.Suggestion)
	}
	return b.String()
}

// Typed errors. errors.As also finds each of them as an *APIError.
type (
	// QuotaExhaustedError: the monthly quota is exhausted, and credits can't pay. Without an API key it is the limit of quick
	// pastes in 24 hours. It resets at ResetAt.
	QuotaExhaustedError struct{ *APIError }
	// PlanUpgradeRequiredError: the plan does not include the quota key. Waiting does not help.
	PlanUpgradeRequiredError struct{ *APIError }
	// SpendingCapReachedError: the spending cap of the account or key is reached until ResetAt, which is zero for a total cap.
	SpendingCapReachedError struct{ *APIError }
	// KeyQuotaExhaustedError: the key's own monthly limit is reached. It resets at ResetAt.
	KeyQuotaExhaustedError struct{ *APIError }
	// RateLimitedError: too many calls, or too many failures, in a short time. Retry after RetryAfter.
	RateLimitedError struct{ *APIError }
	// UnauthorizedError: the API key, session or token is missing, wrong, or no longer valid.
	UnauthorizedError struct{ *APIError }
	// ForbiddenError: the caller is not allowed to do that.
	ForbiddenError struct{ *APIError }
	// NotFoundError: no such document, or the caller has no access.
	NotFoundError struct{ *APIError }
	// ConflictError: the call conflicts with existing state, such as an account with that email, or a call in flight under
	// the same Idempotency-Key.
	ConflictError struct{ *APIError }
	// VersionMismatchError: the document does not have the version of IfVersion.
	VersionMismatchError struct{ *APIError }
	// InvalidError: the request is invalid; Field names the field, if it is one.
	InvalidError struct{ *APIError }
	// UnavailableError: the service could not answer, and nothing was done.
	UnavailableError struct{ *APIError }
	// OutcomeUnknownError: the service could not confirm the call in time. It may have been carried out.
	OutcomeUnknownError struct{ *APIError }
)

// Unwrap is the *APIError.
func (e *QuotaExhaustedError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *PlanUpgradeRequiredError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *SpendingCapReachedError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *KeyQuotaExhaustedError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *RateLimitedError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *UnauthorizedError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *ForbiddenError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *NotFoundError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *ConflictError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *VersionMismatchError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *InvalidError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *UnavailableError) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *OutcomeUnknownError) Unwrap() error { return e.APIError }

// ErrNotModified: the document still has the version of IfNotVersion. The call cost nothing.
var ErrNotModified = errors.New("quire: not modified")

// ErrChecksum: the bytes were corrupted in transit. Retry the transfer.
var ErrChecksum = errors.New("quire: the bytes do not have the file's SHA-256")

// failureBytes is the maximum size of an error body.
const failureBytes = 64 << 10

// failure reads and closes an error response.
func failure(r *http.Response) error {
	defer r.Body.Close()
	if r.StatusCode == http.StatusNotModified {
		return ErrNotModified
	}
	if to := r.Header.Get("Location"); r.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("quire: the answer is %s to %q: this is not the base URL of the service", r.Status, to)
	}
	e := &APIError{
		Status: r.StatusCode, RequestID: r.Header.Get("X-Request-Id"), RetryAfter: retryAfter(r.Header),
		Reason: http.StatusText(r.StatusCode),
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, failureBytes))
	if err != nil {
		return &brokenError{fmt.Errorf("read the answer %s: %w", r.Status, err)}
	}
	var answer struct {
		Code, Reason, Field, Suggestion, QuotaKey, UpgradeURL, Docs, RequestID string

		Limit     int64
		ResetAt   time.Time
		DeletesAt time.Time
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "application/json" && json.Unmarshal(body, &answer) == nil && answer.Code != "" {
		e.Code, e.Reason, e.Field, e.Suggestion = answer.Code, answer.Reason, answer.Field, answer.Suggestion
		e.QuotaKey, e.Limit, e.ResetAt = answer.QuotaKey, answer.Limit, answer.ResetAt
		e.DeletesAt, e.UpgradeURL, e.Docs = answer.DeletesAt, answer.UpgradeURL, answer.Docs
		if answer.RequestID != "" {
			e.RequestID = answer.RequestID
		}
	}
	return typed(e)
}

// typed wraps the error in the type of its code or status, if any.
func typed(e *APIError) error {
	switch e.Code {
	case "quota_exhausted", "anonymous_limit":
		return &QuotaExhaustedError{e}
	case "plan_upgrade_required":
		return &PlanUpgradeRequiredError{e}
	case "spending_cap_reached":
		return &SpendingCapReachedError{e}
	case "key_quota_exhausted":
		return &KeyQuotaExhaustedError{e}
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return &InvalidError{e}
	case http.StatusUnauthorized:
		return &UnauthorizedError{e}
	case http.StatusForbidden:
		return &ForbiddenError{e}
	case http.StatusNotFound:
		return &NotFoundError{e}
	case http.StatusConflict:
		return &ConflictError{e}
	case http.StatusPreconditionFailed:
		return &VersionMismatchError{e}
	case http.StatusTooManyRequests:
		return &RateLimitedError{e}
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return &UnavailableError{e}
	case http.StatusGatewayTimeout:
		return &OutcomeUnknownError{e}
	}
	return e
}

// retryAfter reads Retry-After in either of its forms.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
