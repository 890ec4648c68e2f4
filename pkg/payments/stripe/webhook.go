package stripe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stripe/stripe-go/v82/webhook"

	"quire.dev/pkg/payments"
)

// EventTypes returns the types of the events that say that a payment or a subscription may have changed. Stripe's list of events takes at most
// 20 types. Those of Checkout sessions and invoices are left out: each comes with one of these.
//
// A webhook endpoint has to be subscribed to them: Receive ignores all others.
func EventTypes() []string {
	return []string{
		"payment_intent.succeeded", "payment_intent.payment_failed", "payment_intent.processing", "payment_intent.canceled",
		"charge.refunded", "refund.created", "refund.updated", "refund.failed",
		"charge.dispute.created", "charge.dispute.updated", "charge.dispute.closed",
		"charge.dispute.funds_withdrawn", "charge.dispute.funds_reinstated",
		"customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted",
		"customer.subscription.paused", "customer.subscription.resumed",
	}
}

// Receive implements payments.Provider. It reads only ids, which are in the same place in all versions of Stripe's API, so the
// webhook endpoint's version doesn't matter. While a secret is rolled, Stripe signs with both.
func (p *Provider) Receive(header http.Header, body []byte) (payments.Ref, error) {
	signature := strings.Join(header.Values("Stripe-Signature"), ",")
	if err := webhook.ValidatePayload(body, signature, p.config.WebhookSecret.Reveal()); err != nil {
		return payments.Ref{}, fmt.Errorf("stripe: %w: %w", payments.ErrSignature, err)
	}
	var event struct {
		Type string `json:"type"`
		Data struct {
			Object json.RawMessage `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return payments.Ref{}, fmt.Errorf("stripe: read the webhook: %w", err)
	}
	if !slices.Contains(EventTypes(), event.Type) {
		return payments.Ref{}, nil
	}
	return refOf(event.Data.Object)
}

// refOf returns what an event's object is about: itself, or the payment of a charge, refund or dispute. Charges without a
// PaymentIntent aren't Quire's: the zero Ref.
func refOf(object json.RawMessage) (payments.Ref, error) {
	var o struct {
		ID            string     `json:"id"`
		Object        string     `json:"object"`
		PaymentIntent expandable `json:"payment_intent"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return payments.Ref{}, fmt.Errorf("stripe: read the event's object: %w", err)
	}
	switch {
	case o.Object == "subscription" && o.ID != "":
		return payments.Ref{Kind: payments.KindSubscription, ID: o.ID}, nil
	case o.Object == "payment_intent" && o.ID != "":
		return payments.Ref{Kind: payments.KindPayment, ID: o.ID}, nil
	case o.PaymentIntent != "":
		return payments.Ref{Kind: payments.KindPayment, ID: string(o.PaymentIntent)}, nil
	}
	return payments.Ref{}, nil
}

// expandable is the ID of an object that Stripe sends as its ID or whole (https://docs.stripe.com/api/expanding_objects); "" if
// it is null.
type expandable string

func (e *expandable) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("{")) {
		var whole struct {
			ID string `json:"id"`
		}
		err := json.Unmarshal(b, &whole)
		*e = expandable(whole.ID)
		return err
	}
	return json.Unmarshal(b, (*string)(e))
}
