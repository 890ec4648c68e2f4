package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

// chargesFor is how far back Charge looks for an earlier charge with the same key.
const chargesFor = 31 * 24 * time.Hour

// Charge implements payments.Provider with a PaymentIntent that is confirmed off-session:
// https://docs.stripe.com/payments/save-during-payment#charge-saved-payment-method.
//
// Stripe's idempotency key alone isn't enough. It is forgotten after a day, a failure of Stripe is repeated under it for as
// long, and it refuses a retry after the account holder has saved another card. So the customer's payments of the last month
// are searched for the key first; the idempotency key decides races.
func (p *Provider) Charge(ctx context.Context, t payments.TopUp) (payments.Payment, error) {
	s := sale{account: t.Account, credits: t.CreditsMicros, amount: t.AmountMinor, currency: t.Currency}
	if err := s.check(t.Key); err != nil {
		return payments.Payment{}, err
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	// Not find, which may miss a customer of a minute ago, whose charge would then be declined for good.
	customer, err := p.customer(ctx, payments.Customer{Account: t.Account})
	if err != nil {
		return payments.Payment{}, err
	}
	earlier, err := p.charged(ctx, customer, t.Key)
	if err != nil {
		return payments.Payment{}, err
	}
	if earlier != nil {
		return p.earlier(ctx, earlier, s)
	}
	method, err := p.method(ctx, customer)
	if err != nil {
		return payments.Payment{}, err
	}
	return p.confirm(ctx, t, s, customer, method)
}

// charged returns the customer's intent with a key, or nil.
func (p *Provider) charged(ctx context.Context, customer, key string) (*stripe.PaymentIntent, error) {
	params := &stripe.PaymentIntentListParams{
		ListParams: wholePage(), Customer: stripe.String(customer), CreatedRange: from(time.Now().Add(-chargesFor)),
	}
	params.AddExpand("data.latest_charge")
	for intent, err := range p.api.V1PaymentIntents.List(ctx, params) {
		if err != nil {
			return nil, explain("look for an earlier charge", err)
		}
		if intent.Metadata[metaKey] == key {
			return intent, nil
		}
	}
	return nil, nil
}

// earlier is the result of a charge that was found under its key.
func (p *Provider) earlier(ctx context.Context, intent *stripe.PaymentIntent, s sale) (payments.Payment, error) {
	payment, err := p.complete(ctx, intent)
	if err != nil {
		return payments.Payment{}, err
	}
	if payment.Account != s.account || payment.CreditsMicros != s.credits || payment.Currency != s.currency || intent.Amount != s.amount {
		return payments.Payment{}, fmt.Errorf("payment %s: %w", intent.ID, mismatch("another top-up has the same key"))
	}
	return result(intent, payment)
}

// result is a payment, or the Declined that it means off-session. An intent that waits for confirmation waits forever, since
// there is no page to confirm it on.
func result(intent *stripe.PaymentIntent, payment payments.Payment) (payments.Payment, error) {
	if intent.Status == stripe.PaymentIntentStatusRequiresAction {
		return payments.Payment{}, &payments.Declined{
			Reason: payments.AuthenticationRequired, Message: "The bank asks for a confirmation of the payment.", Payment: intent.ID,
		}
	}
	if payment.State == payments.Failed {
		d := &payments.Declined{Reason: payment.FailureReason, Payment: intent.ID}
		if intent.LastPaymentError != nil {
			d.Message = intent.LastPaymentError.Msg
		}
		return payments.Payment{}, d
	}
	return payment, nil
}

// method returns the payment method to charge: the default that the customer chose in the portal, or else the newest.
func (p *Provider) method(ctx context.Context, customer string) (string, error) {
	c, err := p.api.V1Customers.Retrieve(ctx, customer, nil) // search results lag behind
	if err != nil {
		return "", explain("read the customer", err)
	}
	if s := c.InvoiceSettings; s != nil && s.DefaultPaymentMethod != nil {
		return s.DefaultPaymentMethod.ID, nil
	}
	var newest *stripe.PaymentMethod
	params := &stripe.CustomerListPaymentMethodsParams{ListParams: wholePage(), Customer: stripe.String(customer)}
	for m, err := range p.api.V1Customers.ListPaymentMethods(ctx, params) {
		if err != nil {
			return "", explain("list payment methods", err)
		}
		if newest == nil || m.Created > newest.Created {
			newest = m
		}
	}
	if newest == nil {
		return "", &payments.Declined{Reason: payments.NoPaymentMethod, Message: "No payment method is saved."}
	}
	return newest.ID, nil
}

// confirm creates the intent and charges it, in one request.
func (p *Provider) confirm(ctx context.Context, t payments.TopUp, s sale, customer, method string) (payments.Payment, error) {
	params := &stripe.PaymentIntentCreateParams{
		Amount: stripe.Int64(t.AmountMinor), Currency: stripe.String(t.Currency), Customer: stripe.String(customer),
		PaymentMethod: stripe.String(method), Confirm: stripe.Bool(true), OffSession: stripe.Bool(true),
		AutomaticPaymentMethods: &stripe.PaymentIntentCreateAutomaticPaymentMethodsParams{
			Enabled: stripe.Bool(true), AllowRedirects: stripe.String("never"),
		},
		Metadata: p.metadata(s),
	}
	params.Metadata[metaKey] = t.Key
	if t.Description != "" {
		params.Description = stripe.String(t.Description)
	}
	params.IdempotencyKey = p.idempotencyKey("charge", t.Account, t.Key)
	params.AddExpand("latest_charge")
	intent, err := p.api.V1PaymentIntents.Create(ctx, params)
	if d := declined(err); d != nil {
		return payments.Payment{}, d
	}
	if conflict(err) {
		// Either another caller has just charged another card, whose payment the next call finds, or Stripe failed before the
		// card was changed, and forgets the key within a day.
		return payments.Payment{}, fmt.Errorf("stripe: charge: %w: the key is in use with other parameters", payments.ErrUnavailable)
	}
	if refused(err) { // for example a payment method that its holder has to be present for
		return payments.Payment{}, &payments.Declined{Reason: cmp.Or(codeOf(err), "refused"), Message: "The payment was refused."}
	}
	if err != nil {
		return payments.Payment{}, explain("charge", err)
	}
	payment, err := paymentOf(intent, s)
	if err != nil {
		return payments.Payment{}, fmt.Errorf("payment %s: %w", intent.ID, err)
	}
	return result(intent, payment)
}

// conflict reports whether Stripe refused a key that it knows with other parameters.
func conflict(err error) bool {
	var refusal *stripe.Error
	return errors.As(err, &refusal) && refusal.Type == stripe.ErrorTypeIdempotency
}
