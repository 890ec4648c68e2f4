package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

// explain turns an error of stripe-go into one of package payments. The text of a stripe.Error is the whole answer, with
// client secrets and details of cards, so it isn't wrapped: only what an operator needs is taken over.
func explain(doing string, err error) error {
	var refusal *stripe.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &refusal) && connection(err):
		return fmt.Errorf("stripe: %s: %w: %w", doing, payments.ErrUnavailable, err)
	case refusal == nil:
		return fmt.Errorf("stripe: %s: %w: the answer isn't one of Stripe's", doing, payments.ErrUnavailable)
	}
	detail := fmt.Sprintf("%d %s %s: %s (request %s)", refusal.HTTPStatusCode, refusal.Type, refusal.Code, refusal.Msg, refusal.RequestID)
	switch status := refusal.HTTPStatusCode; {
	case status == http.StatusUnauthorized:
		return fmt.Errorf("stripe: %s: the API key is invalid or expired (request %s)", doing, refusal.RequestID)
	case status == http.StatusNotFound:
		return fmt.Errorf("stripe: %s: %w: %s", doing, payments.ErrNotFound, detail)
	case transient(refusal):
		return fmt.Errorf("stripe: %s: %w: %s", doing, payments.ErrUnavailable, detail)
	}
	return fmt.Errorf("stripe: %s: %s", doing, detail)
}

// connection reports whether an error comes from the connection or the context. All others of stripe-go that aren't a
// stripe.Error quote the answer.
func connection(err error) bool {
	var requested *url.Error
	return errors.As(err, &requested) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// transient reports whether a request may have had an effect, or may have one if it is sent again: failures of Stripe (5xx),
// the same key in flight (409), and too many requests (429). See https://docs.stripe.com/error-low-level.
func transient(e *stripe.Error) bool {
	return e.HTTPStatusCode >= 500 || e.HTTPStatusCode == http.StatusConflict || e.HTTPStatusCode == http.StatusTooManyRequests ||
		e.HTTPStatusCode == 0
}

// refused reports whether Stripe refused a request for good, because of what it says.
func refused(err error) bool {
	var refusal *stripe.Error
	return errors.As(err, &refusal) && refusal.HTTPStatusCode == http.StatusBadRequest && refusal.Type != stripe.ErrorTypeIdempotency
}

// codeOf is Stripe's code of an error, "" without one.
func codeOf(err error) string {
	var refusal *stripe.Error
	if !errors.As(err, &refusal) {
		return ""
	}
	return string(refusal.Code)
}

// declined returns the decline that an error is, or nil. https://docs.stripe.com/api/errors: card errors come with status 402.
func declined(err error) *payments.Declined {
	var refusal *stripe.Error
	if !errors.As(err, &refusal) || refusal.Type != stripe.ErrorTypeCard {
		return nil
	}
	d := &payments.Declined{Reason: declineReason(refusal), Message: refusal.Msg}
	if refusal.PaymentIntent != nil {
		d.Payment = refusal.PaymentIntent.ID
	}
	return d
}

// declineReason is the issuer's reason if it gave one, and Stripe's code otherwise. See https://docs.stripe.com/declines/codes.
func declineReason(e *stripe.Error) string {
	if e.DeclineCode != "" {
		return string(e.DeclineCode)
	}
	return string(e.Code)
}
