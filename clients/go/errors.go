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

// APIError is a failure that the service answered. Branch on Code, or use errors.As with a type such as *QuotaExhausted.
// More codes may come: treat one that you don't know as its Status. Whatever fails costs nothing.
type APIError struct {
	Status     int           // of HTTP, such as 404
	Code       string        // why, for programs, such as "not_found"
	Reason     string        // why, for people
	Field      string        // the field, query parameter or header that is at fault, if it is one
	Suggestion string        // what was probably meant
	QuotaKey   string        // of a refused call
	Limit      int64         // that was reached or passed; of sizes in bytes
	ResetAt    time.Time     // from then on the same call may succeed; zero where waiting does not help
	UpgradeURL string        // where an account gets a tier with more
	Docs       string        // address of the code's section in the documentation
	RequestID  string        // by which the operator finds the call
	RetryAfter time.Duration // after which the same call may succeed; 0 where the service names none
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

// The failures that programs tell apart. errors.As finds each of them as an *APIError too.
type (
	// QuotaExhausted: the month's limit of the quota key is reached, and no credits pay for more. Without an API key it is the
	// limit of quick pastes in 24 hours. It ends at ResetAt.
	QuotaExhausted struct{ *APIError }
	// PlanUpgradeRequired: the account's tier does not have the quota key. Waiting does not help.
	PlanUpgradeRequired struct{ *APIError }
	// SpendingCapReached: the account or its key may spend no more until ResetAt, which is zero for a cap in total.
	SpendingCapReached struct{ *APIError }
	// KeyQuotaExhausted: the month's limit of the key itself is reached. It ends at ResetAt.
	KeyQuotaExhausted struct{ *APIError }
	// RateLimited: too many calls in a short time, or too many that failed. RetryAfter says when to go on.
	RateLimited struct{ *APIError }
	// Unauthorized: the API key, session or token is missing, wrong, or no longer current.
	Unauthorized struct{ *APIError }
	// Forbidden: the caller is known and may not do that.
	Forbidden struct{ *APIError }
	// NotFound: there is no such document, or the caller may not know of it.
	NotFound struct{ *APIError }
	// Conflict: what exists already is in the way, such as an account with that email, or a first call under the same
	// Idempotency-Key that has not ended.
	Conflict struct{ *APIError }
	// VersionMismatch: the document has another version than one that IfVersion names.
	VersionMismatch struct{ *APIError }
	// Invalid: the request is wrong, in Field where one field is at fault.
	Invalid struct{ *APIError }
	// Unavailable: the service could not answer, and nothing was done.
	Unavailable struct{ *APIError }
	// OutcomeUnknown: the service could not confirm the call in time. It may have been carried out.
	OutcomeUnknown struct{ *APIError }
)

// Unwrap is the *APIError.
func (e *QuotaExhausted) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *PlanUpgradeRequired) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *SpendingCapReached) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *KeyQuotaExhausted) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *RateLimited) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *Unauthorized) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *Forbidden) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *NotFound) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *Conflict) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *VersionMismatch) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *Invalid) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *Unavailable) Unwrap() error { return e.APIError }

// Unwrap is the *APIError.
func (e *OutcomeUnknown) Unwrap() error { return e.APIError }

// ErrNotModified: the document still has the version that IfNotVersion names. The call cost nothing.
var ErrNotModified = errors.New("quire: not modified")

// ErrChecksum: the bytes that arrived are not those that the service has. Read them again.
var ErrChecksum = errors.New("quire: the bytes do not have the file's SHA-256")

// failureBytes are read of a failure's body at most.
const failureBytes = 64 << 10

// failure reads an answer that is no success, and closes it.
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

		Limit   int64
		ResetAt time.Time
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "application/json" && json.Unmarshal(body, &answer) == nil && answer.Code != "" {
		e.Code, e.Reason, e.Field, e.Suggestion = answer.Code, answer.Reason, answer.Field, answer.Suggestion
		e.QuotaKey, e.Limit, e.ResetAt = answer.QuotaKey, answer.Limit, answer.ResetAt
		e.UpgradeURL, e.Docs = answer.UpgradeURL, answer.Docs
		if answer.RequestID != "" {
			e.RequestID = answer.RequestID
		}
	}
	return typed(e)
}

// typed is the error of its own type, where its code or its status has one.
func typed(e *APIError) error {
	switch e.Code {
	case "quota_exhausted", "anonymous_limit":
		return &QuotaExhausted{e}
	case "plan_upgrade_required":
		return &PlanUpgradeRequired{e}
	case "spending_cap_reached":
		return &SpendingCapReached{e}
	case "key_quota_exhausted":
		return &KeyQuotaExhausted{e}
	}
	switch e.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return &Invalid{e}
	case http.StatusUnauthorized:
		return &Unauthorized{e}
	case http.StatusForbidden:
		return &Forbidden{e}
	case http.StatusNotFound:
		return &NotFound{e}
	case http.StatusConflict:
		return &Conflict{e}
	case http.StatusPreconditionFailed:
		return &VersionMismatch{e}
	case http.StatusTooManyRequests:
		return &RateLimited{e}
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return &Unavailable{e}
	case http.StatusGatewayTimeout:
		return &OutcomeUnknown{e}
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
