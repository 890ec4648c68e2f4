package stripe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

// Subscription implements payments.Provider. One that ended is read whatever its price says, so that a plan always ends.
func (p *Provider) Subscription(ctx context.Context, id string) (payments.Subscription, error) {
	if !strings.HasPrefix(id, "sub_") {
		return payments.Subscription{}, fmt.Errorf("%w: %q is not the ID of a subscription", payments.ErrNotFound, id)
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	params := &stripe.SubscriptionRetrieveParams{}
	params.AddExpand("latest_invoice.payments")
	subscription, err := p.api.V1Subscriptions.Retrieve(ctx, id, params)
	if err != nil {
		return payments.Subscription{}, explain("read subscription "+id, err)
	}
	s, err := p.subscriptionOf(subscription)
	if err != nil {
		return payments.Subscription{}, fmt.Errorf("subscription %s: %w", id, err)
	}
	return s, nil
}

// subscriptionOf follows https://docs.stripe.com/billing/subscriptions/overview#subscription-statuses: a past_due subscription
// is retried by the account's settings and ends as unpaid or canceled. Since API version 2025-03-31 its items have the periods.
func (p *Provider) subscriptionOf(from *stripe.Subscription) (payments.Subscription, error) {
	sold, err := p.subscribed(from)
	if err != nil {
		return payments.Subscription{}, err
	}
	s := payments.Subscription{
		ID: from.ID, Account: sold.account, Plan: sold.plan, NextPlan: sold.next.plan, FeeMinor: sold.amount, CancelAtPeriodEnd: from.CancelAtPeriodEnd, Created: time.Unix(from.Created, 0).UTC(),
		PastDue: from.Status == stripe.SubscriptionStatusPastDue,
		Ended:   ended(from),
	}
	switch from.Status {
	case stripe.SubscriptionStatusActive, stripe.SubscriptionStatusTrialing, stripe.SubscriptionStatusPastDue:
		s.Active = true
	}
	if s.Active && string(from.Currency) != sold.currency {
		return payments.Subscription{}, mismatch("its currency is %s, and %s was ordered", from.Currency, sold.currency)
	}
	if item := itemOf(from); item != nil {
		s.CurrentPeriodEnd = time.Unix(item.CurrentPeriodEnd, 0).UTC()
	}
	s.LatestPayment = latestPayment(from.LatestInvoice)
	return s, nil
}

func ended(s *stripe.Subscription) bool {
	return s.Status == stripe.SubscriptionStatusCanceled || s.Status == stripe.SubscriptionStatusIncompleteExpired
}

// subscribed is the plan of a subscription's current period, and the next one.
func (p *Provider) subscribed(from *stripe.Subscription) (sale, error) {
	sold, err := p.parse(from.Metadata)
	if err == nil && sold.plan == "" {
		err = mismatch("metadata has no %s", metaPlan)
	}
	if item := itemOf(from); item != nil {
		sold = sold.at(item.CurrentPeriodStart)
	}
	return sold, err
}

// itemOf is the subscription's item, of which Quire's have one, or nil.
func itemOf(s *stripe.Subscription) *stripe.SubscriptionItem {
	if s.Items == nil || len(s.Items.Data) == 0 {
		return nil
	}
	return s.Items.Data[0]
}

// latestPayment is the intent that paid an invoice, or else the one that is to pay it.
func latestPayment(invoice *stripe.Invoice) string {
	if invoice == nil || invoice.Payments == nil {
		return ""
	}
	id := ""
	for _, p := range invoice.Payments.Data {
		if p.Payment == nil || p.Payment.PaymentIntent == nil {
			continue
		}
		if p.Status == "paid" {
			return p.Payment.PaymentIntent.ID
		}
		id = p.Payment.PaymentIntent.ID
	}
	return id
}
