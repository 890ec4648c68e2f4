package stripe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

// Payment implements payments.Provider. A paid payment takes three or four requests, an unpaid one or two.
func (p *Provider) Payment(ctx context.Context, id string) (payments.Payment, error) {
	if !strings.HasPrefix(id, "pi_") {
		return payments.Payment{}, fmt.Errorf("%w: %q is not the ID of a PaymentIntent", payments.ErrNotFound, id)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	params := &stripe.PaymentIntentRetrieveParams{}
	params.AddExpand("latest_charge")
	intent, err := p.api.V1PaymentIntents.Retrieve(ctx, id, params)
	if err != nil {
		return payments.Payment{}, explain("read payment "+id, err)
	}
	return p.complete(ctx, intent)
}

// complete makes a payment of an intent whose latest_charge is expanded, with everything that other objects know about it.
func (p *Provider) complete(ctx context.Context, intent *stripe.PaymentIntent) (payments.Payment, error) {
	payment, err := p.sold(ctx, intent)
	if err != nil {
		return payments.Payment{}, fmt.Errorf("payment %s: %w", intent.ID, err)
	}
	if payment.State != payments.Paid {
		return payment, nil
	}
	if payment.RefundedMinor, err = p.refunded(ctx, intent.ID); err != nil {
		return payments.Payment{}, err
	}
	if payment.DisputedMinor, err = p.disputed(ctx, intent); err != nil {
		return payments.Payment{}, err
	}
	return payment, nil
}

// sold returns the payment of an intent, without its refunds and disputes. The intent of a plan's fee has no metadata: the subscription's
// metadata is on its invoice.
func (p *Provider) sold(ctx context.Context, intent *stripe.PaymentIntent) (payments.Payment, error) {
	s, err := p.parse(intent.Metadata)
	if errors.Is(err, errUnmarked) {
		return p.fee(ctx, intent)
	}
	if err != nil {
		return payments.Payment{}, err
	}
	if s.plan != "" {
		return payments.Payment{}, mismatch("a standalone payment has a plan in its metadata")
	}
	payment, err := paymentOf(intent, s)
	if err != nil {
		return payments.Payment{}, err
	}
	if s.session != "" && payment.State == payments.Paid {
		if err := p.addSession(ctx, &payment); err != nil {
			return payments.Payment{}, err
		}
	}
	// A payment that is under way or failed has not got its tax yet, and nothing is granted for it.
	if net := payment.AmountMinor - payment.TaxMinor; payment.State == payments.Paid && net != s.amount {
		return payments.Payment{}, mismatch("%d %s were paid before tax, and %d were ordered", net, payment.Currency, s.amount)
	}
	return payment, nil
}

// paymentOf is the payment that an intent itself describes.
func paymentOf(intent *stripe.PaymentIntent, s sale) (payments.Payment, error) {
	payment := payments.Payment{
		ID: intent.ID, Account: s.account, CreditsMicros: s.credits, Plan: s.plan,
		AmountMinor: intent.Amount, Currency: string(intent.Currency), State: stateOf(intent), Created: time.Unix(intent.Created, 0).UTC(),
	}
	if payment.Currency != s.currency {
		return payments.Payment{}, mismatch("its currency is %s, and %s was ordered", payment.Currency, s.currency)
	}
	if payment.State == payments.Paid {
		payment.AmountMinor = intent.AmountReceived
	}
	if payment.State == payments.Failed {
		payment.FailureReason = failureOf(intent)
	}
	if c := intent.LatestCharge; c != nil {
		payment.Number, payment.URL = c.ReceiptNumber, c.ReceiptURL
	}
	return payment, nil
}

// stateOf follows https://docs.stripe.com/payments/paymentintents/lifecycle: after a failed attempt an intent requires a payment
// method again.
func stateOf(intent *stripe.PaymentIntent) payments.State {
	switch intent.Status {
	case stripe.PaymentIntentStatusSucceeded:
		return payments.Paid
	case stripe.PaymentIntentStatusCanceled:
		return payments.Failed
	case stripe.PaymentIntentStatusRequiresPaymentMethod:
		if intent.LastPaymentError != nil {
			return payments.Failed
		}
	}
	return payments.Pending
}

func failureOf(intent *stripe.PaymentIntent) string {
	if intent.LastPaymentError != nil {
		return declineReason(intent.LastPaymentError)
	}
	return "canceled"
}

// addSession adds the tax and the invoice, which only the Checkout session knows.
func (p *Provider) addSession(ctx context.Context, payment *payments.Payment) error {
	params := &stripe.CheckoutSessionListParams{PaymentIntent: stripe.String(payment.ID)}
	params.AddExpand("data.invoice")
	for session, err := range p.api.V1CheckoutSessions.List(ctx, params) {
		if err != nil {
			return explain("read the session of "+payment.ID, err)
		}
		if session.TotalDetails != nil {
			payment.TaxMinor = session.TotalDetails.AmountTax
		}
		addInvoice(payment, session.Invoice)
		return nil
	}
	return mismatch("it has no checkout session")
}

func addInvoice(payment *payments.Payment, invoice *stripe.Invoice) {
	if invoice != nil && invoice.Number != "" {
		payment.Number, payment.URL = invoice.Number, invoice.HostedInvoiceURL
	}
}

// fee makes a payment of a subscription's fee. Invoices are connected to their intents by invoice payments since API version
// 2025-03-31: https://docs.stripe.com/changelog/basil/2025-03-31/add-support-for-multiple-partial-payments-on-invoices.
func (p *Provider) fee(ctx context.Context, intent *stripe.PaymentIntent) (payments.Payment, error) {
	invoice, err := p.invoice(ctx, intent.ID)
	if err != nil {
		return payments.Payment{}, err
	}
	if invoice == nil || invoice.Parent == nil || invoice.Parent.SubscriptionDetails == nil {
		return payments.Payment{}, errUnmarked
	}
	details := invoice.Parent.SubscriptionDetails
	s, err := p.parse(details.Metadata)
	if err != nil {
		return payments.Payment{}, err
	}
	if s.plan == "" {
		return payments.Payment{}, mismatch("its subscription has no plan in its metadata")
	}
	s = s.at(invoice.Created)
	payment, err := paymentOf(intent, s)
	if err != nil {
		return payments.Payment{}, err
	}
	if details.Subscription != nil {
		payment.Subscription = details.Subscription.ID
	}
	for _, tax := range invoice.TotalTaxes {
		payment.TaxMinor += tax.Amount
	}
	payment.TaxMinor = min(payment.TaxMinor, payment.AmountMinor) // the customer's balance may have paid a part of both
	addInvoice(&payment, invoice)
	return payment, nil
}

// invoice returns the invoice that an intent pays, or nil.
func (p *Provider) invoice(ctx context.Context, intent string) (*stripe.Invoice, error) {
	params := &stripe.InvoicePaymentListParams{Payment: &stripe.InvoicePaymentListPaymentParams{
		PaymentIntent: stripe.String(intent), Type: stripe.String("payment_intent"),
	}}
	params.AddExpand("data.invoice")
	for paid, err := range p.api.V1InvoicePayments.List(ctx, params) {
		if err != nil {
			return nil, explain("read the invoice of "+intent, err)
		}
		return paid.Invoice, nil
	}
	return nil, nil
}

// refunded sums up refunds, without those that failed or were canceled: their money is back in the Stripe balance
// (https://docs.stripe.com/refunds#failed-refunds).
func (p *Provider) refunded(ctx context.Context, intent string) (int64, error) {
	sum := int64(0)
	params := &stripe.RefundListParams{PaymentIntent: stripe.String(intent), ListParams: wholePage()}
	for refund, err := range p.api.V1Refunds.List(ctx, params) {
		if err != nil {
			return 0, explain("read the refunds of "+intent, err)
		}
		switch refund.Status {
		case stripe.RefundStatusFailed, stripe.RefundStatusCanceled:
		default:
			sum += refund.Amount
		}
	}
	return sum, nil
}

// disputed sums up disputes whose money is withdrawn. Inquiries (warning_…) and prevented disputes withdraw none, and a dispute
// won returns it: https://docs.stripe.com/disputes/how-disputes-work. A dispute in another currency counts as one of the whole.
func (p *Provider) disputed(ctx context.Context, intent *stripe.PaymentIntent) (int64, error) {
	sum := int64(0)
	params := &stripe.DisputeListParams{PaymentIntent: stripe.String(intent.ID), ListParams: wholePage()}
	for dispute, err := range p.api.V1Disputes.List(ctx, params) {
		if err != nil {
			return 0, explain("read the disputes of "+intent.ID, err)
		}
		switch dispute.Status {
		case stripe.DisputeStatusNeedsResponse, stripe.DisputeStatusUnderReview, stripe.DisputeStatusLost:
			if dispute.Currency == intent.Currency {
				sum += dispute.Amount
			} else {
				sum += intent.AmountReceived
			}
		}
	}
	return sum, nil
}

// wholePage asks for the largest pages: https://docs.stripe.com/api/pagination.
func wholePage() stripe.ListParams { return stripe.ListParams{Limit: stripe.Int64(100)} }
