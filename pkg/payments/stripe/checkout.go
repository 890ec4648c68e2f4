package stripe

import (
	"context"
	"errors"
	"fmt"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

// Checkout implements payments.Provider with a Checkout Session, which is open for 24 hours.
func (p *Provider) Checkout(ctx context.Context, o payments.Order) (payments.Page, error) {
	s := sale{account: o.Account, credits: o.CreditsMicros, plan: o.Plan, amount: o.AmountMinor, currency: o.Currency}
	if err := s.check(o.Key); err != nil {
		return payments.Page{}, err
	}
	if o.SuccessURL == "" || o.CancelURL == "" || o.Description == "" {
		return payments.Page{}, fmt.Errorf("%w: an order needs a description, a success and a cancel URL", payments.ErrInvalid)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	customer, err := p.customer(ctx, o.Customer)
	if err != nil {
		return payments.Page{}, err
	}
	session, err := p.api.V1CheckoutSessions.Create(ctx, p.sessionParams(o, s, customer))
	switch {
	case conflict(err):
		return payments.Page{}, fmt.Errorf("stripe: open the checkout page: %w", payments.ErrKeyReused)
	case err != nil:
		return payments.Page{}, explain("open the checkout page", err)
	}
	if session.URL == "" {
		return payments.Page{}, errors.New("stripe: open the checkout page: the session has no URL")
	}
	return payments.Page{URL: session.URL, Replayed: session.LastResponse.Header.Get("Idempotent-Replayed") == "true"}, nil
}

// sessionParams are the parameters of an order's session. They depend on the order and the configuration alone, as the
// idempotency key demands.
func (p *Provider) sessionParams(o payments.Order, s sale, customer string) *stripe.CheckoutSessionCreateParams {
	if o.Plan == "" && p.config.AutomaticTax {
		s.session = "tax"
	} else if o.Plan == "" && p.config.Invoices {
		s.session = "invoice"
	}
	metadata := p.metadata(s)
	price := &stripe.CheckoutSessionCreateLineItemPriceDataParams{
		Currency:    stripe.String(o.Currency),
		UnitAmount:  stripe.Int64(o.AmountMinor),
		ProductData: &stripe.CheckoutSessionCreateLineItemPriceDataProductDataParams{Name: stripe.String(o.Description)},
	}
	params := &stripe.CheckoutSessionCreateParams{
		// Adaptive pricing would show and charge another currency.
		AdaptivePricing:   &stripe.CheckoutSessionCreateAdaptivePricingParams{Enabled: stripe.Bool(false)},
		ClientReferenceID: stripe.String(o.Account),
		Customer:          stripe.String(customer),
		LineItems:         []*stripe.CheckoutSessionCreateLineItemParams{{PriceData: price, Quantity: stripe.Int64(1)}},
		Metadata:          metadata,
		SuccessURL:        stripe.String(o.SuccessURL),
		CancelURL:         stripe.String(o.CancelURL),
	}
	params.IdempotencyKey = p.idempotencyKey("checkout", o.Account, o.Key)
	if o.Plan != "" {
		params.Mode = stripe.String(stripe.CheckoutSessionModeSubscription)
		price.Recurring = &stripe.CheckoutSessionCreateLineItemPriceDataRecurringParams{Interval: stripe.String(stripe.PriceRecurringIntervalMonth)}
		// Each of the subscription's invoices gets a copy of this metadata, which its PaymentIntent doesn't.
		params.SubscriptionData = &stripe.CheckoutSessionCreateSubscriptionDataParams{Metadata: metadata}
	} else {
		params.Mode = stripe.String(stripe.CheckoutSessionModePayment)
		params.PaymentIntentData = &stripe.CheckoutSessionCreatePaymentIntentDataParams{
			Description:      stripe.String(o.Description),
			Metadata:         metadata,
			SetupFutureUsage: stripe.String(stripe.PaymentIntentSetupFutureUsageOffSession),
		}
		if p.config.Invoices {
			params.InvoiceCreation = &stripe.CheckoutSessionCreateInvoiceCreationParams{Enabled: stripe.Bool(true)}
		}
	}
	if p.config.AutomaticTax {
		// The tax depends on the address that the customer enters, which has to be saved:
		// https://docs.stripe.com/tax/checkout#existing-customers
		params.AutomaticTax = &stripe.CheckoutSessionCreateAutomaticTaxParams{Enabled: stripe.Bool(true)}
		params.CustomerUpdate = &stripe.CheckoutSessionCreateCustomerUpdateParams{Address: stripe.String("auto")}
		price.TaxBehavior = stripe.String(stripe.PriceTaxBehaviorExclusive)
	}
	return params
}

// Portal implements payments.Provider with the customer portal, which an operator configures in Stripe's dashboard.
func (p *Provider) Portal(ctx context.Context, c payments.Customer, returnURL string) (string, error) {
	if returnURL == "" {
		return "", fmt.Errorf("%w: the portal needs a return URL", payments.ErrInvalid)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	customer, err := p.customer(ctx, c)
	if err != nil {
		return "", err
	}
	session, err := p.api.V1BillingPortalSessions.Create(ctx, &stripe.BillingPortalSessionCreateParams{
		Customer: stripe.String(customer), ReturnURL: stripe.String(returnURL),
	})
	if err != nil {
		return "", explain("open the customer portal", err)
	}
	return session.URL, nil
}
