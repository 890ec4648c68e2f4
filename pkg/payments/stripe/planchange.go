package stripe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

// Cancel implements payments.Provider. Stripe answers with 404 for a subscription that is canceled already, as for one that
// never was, so it is read first: another installation's must not be canceled either.
func (p *Provider) Cancel(ctx context.Context, id string, atPeriodEnd bool) error {
	s, err := p.Subscription(ctx, id)
	if err != nil {
		return err
	}
	if s.Ended {
		return nil
	}
	if !atPeriodEnd && s.NextPlan != "" { // what is left is credited by the price, which is the next plan's
		if _, err := p.change(ctx, id, payments.PlanChange{Plan: s.Plan, Description: s.Plan + " plan"}); err != nil {
			return err
		}
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	if atPeriodEnd {
		params := &stripe.SubscriptionUpdateParams{CancelAtPeriodEnd: stripe.Bool(true)}
		_, err = p.api.V1Subscriptions.Update(ctx, id, params)
	} else {
		params := &stripe.SubscriptionCancelParams{Prorate: stripe.Bool(!s.PastDue), InvoiceNow: stripe.Bool(true)}
		_, err = p.api.V1Subscriptions.Cancel(ctx, id, params)
	}
	if err != nil {
		return explain("cancel subscription "+id, err)
	}
	return nil
}

// Change implements payments.Provider. The subscription gets the next plan's price at once, without proration, so that the next
// invoice has it, and metadata says from when the plan is another one. That is one request, where a subscription schedule would
// take several. See https://docs.stripe.com/billing/subscriptions/prorations#disable-prorations.
func (p *Provider) Change(ctx context.Context, id string, to payments.PlanChange) (payments.Changed, error) {
	switch {
	case len(to.Plan) > 500 || to.AmountMinor < 0 || !printable(to.Key) || len(to.Key) > 100 || to.Plan != "" && to.Description == "":
		return payments.Changed{}, fmt.Errorf("%w: a change needs a plan with its fee and a description, and a key", payments.ErrInvalid)
	case !strings.HasPrefix(id, "sub_"):
		return payments.Changed{}, fmt.Errorf("%w: %q is not the ID of a subscription", payments.ErrNotFound, id)
	}
	return p.change(ctx, id, to)
}

// change carries out a Change. Without a key it is not known again.
func (p *Provider) change(ctx context.Context, id string, to payments.PlanChange) (payments.Changed, error) {
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	from, err := p.api.V1Subscriptions.Retrieve(ctx, id, &stripe.SubscriptionRetrieveParams{})
	if err != nil {
		return payments.Changed{}, explain("read subscription "+id, err)
	}
	sold, err := p.subscribed(from)
	switch {
	case err != nil:
		return payments.Changed{}, fmt.Errorf("subscription %s: %w", id, err)
	case ended(from) || itemOf(from) == nil:
		return payments.Changed{}, fmt.Errorf("%w: subscription %s has ended", payments.ErrNotFound, id)
	case to.Plan != "" && to.Plan != sold.plan && to.AmountMinor == 0:
		return payments.Changed{}, fmt.Errorf("%w: another plan needs a fee", payments.ErrInvalid)
	}
	for attempt := 0; ; attempt++ {
		params, err := p.changeParams(ctx, sold, from, to)
		if err != nil {
			return payments.Changed{}, err
		}
		if to.Key != "" {
			params.IdempotencyKey = p.idempotencyKey("checkout", sold.account, to.Key+strings.Repeat("-again", attempt))
		}
		end := itemOf(from).CurrentPeriodEnd
		from, err = p.api.V1Subscriptions.Update(ctx, id, params)
		switch {
		case conflict(err):
			return payments.Changed{}, fmt.Errorf("stripe: change subscription %s: %w", id, payments.ErrKeyReused)
		case err != nil:
			return payments.Changed{}, explain("change subscription "+id, err)
		}
		if item := itemOf(from); attempt > 0 || item == nil || item.CurrentPeriodEnd == end {
			s, err := p.subscriptionOf(from)
			return payments.Changed{Subscription: s, Replayed: from.LastResponse.Header.Get("Idempotent-Replayed") == "true"}, err
		}
		// A new period has begun since the subscription was read. It was paid at the old price, so the change belongs to its end.
		sold = sold.at(itemOf(from).CurrentPeriodStart)
	}
}

// changeParams are the parameters that give a subscription the plan `to` from the end of its period on. They depend on `to`, the
// plan and the period alone, as an idempotency key demands.
func (p *Provider) changeParams(ctx context.Context, sold sale, from *stripe.Subscription, to payments.PlanChange) (*stripe.SubscriptionUpdateParams, error) {
	if to.Plan == "" {
		return &stripe.SubscriptionUpdateParams{CancelAtPeriodEnd: stripe.Bool(true)}, nil
	}
	amount, item := to.AmountMinor, itemOf(from)
	metadata := map[string]string{metaPlan: sold.plan, metaAmount: strconv.FormatInt(sold.amount, 10)}
	if to.Plan == sold.plan {
		amount = sold.amount
		metadata[metaNextPlan], metadata[metaNextAmount], metadata[metaNextFrom] = "", "", "" // empty values remove the keys
	} else {
		metadata[metaNextPlan], metadata[metaNextAmount] = to.Plan, strconv.FormatInt(amount, 10)
		metadata[metaNextFrom] = strconv.FormatInt(item.CurrentPeriodEnd, 10)
	}
	product, err := p.product(ctx, to.Plan, to.Description)
	if err != nil {
		return nil, err
	}
	price := &stripe.SubscriptionUpdateItemPriceDataParams{
		Currency: stripe.String(sold.currency), Product: stripe.String(product), UnitAmount: stripe.Int64(amount),
		Recurring: &stripe.SubscriptionUpdateItemPriceDataRecurringParams{Interval: stripe.String(stripe.PriceRecurringIntervalMonth)},
	}
	if from.AutomaticTax != nil && from.AutomaticTax.Enabled { // as Checkout began it
		price.TaxBehavior = stripe.String(stripe.PriceTaxBehaviorExclusive)
	}
	return &stripe.SubscriptionUpdateParams{
		CancelAtPeriodEnd: stripe.Bool(false),
		Items:             []*stripe.SubscriptionUpdateItemParams{{ID: stripe.String(item.ID), PriceData: price}},
		Metadata:          metadata,
		ProrationBehavior: stripe.String("none"),
	}, nil
}

// product returns the ID of the product of a plan's prices, creating the product if necessary. We choose the ID, so each plan and name
// has exactly one product.
func (p *Provider) product(ctx context.Context, plan, name string) (string, error) {
	hash := sha256.Sum256([]byte(plan + "\n" + name))
	id := "quire-" + p.config.Installation + "-" + hex.EncodeToString(hash[:8])
	_, err := p.api.V1Products.Create(ctx, &stripe.ProductCreateParams{ID: stripe.String(id), Name: stripe.String(name)})
	if err != nil && codeOf(err) != string(stripe.ErrorCodeResourceAlreadyExists) {
		return "", explain("create the product of a plan", err)
	}
	return id, nil
}
