package stripe

import (
	"context"
	"iter"
	"time"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
)

const (
	// eventsFor is how long Stripe's list of events can be relied on: it goes back 30 days (https://docs.stripe.com/api/events).
	eventsFor = 29 * 24 * time.Hour
	// settlesWithin bounds how long after its creation a payment or a refund comes to an end. Bank debits take up to 14 days,
	// and a refund can fail up to 30 days later (https://docs.stripe.com/refunds#failed-refunds).
	settlesWithin = 31 * 24 * time.Hour
)

// Changed implements payments.Provider by Stripe's list of events, which has every change of the last 30 days, whether or not
// its webhook was delivered. Objects can only be listed by when they were created. So for an earlier time it also lists all
// objects that can have changed between that time and the first event.
func (p *Provider) Changed(ctx context.Context, since time.Time) iter.Seq2[payments.Ref, error] {
	return func(yield func(payments.Ref, error) bool) {
		seen := make(map[payments.Ref]bool)
		once := func(ref payments.Ref, err error) bool {
			if err != nil {
				yield(payments.Ref{}, err)
				return false
			}
			if ref == (payments.Ref{}) || seen[ref] {
				return true
			}
			seen[ref] = true
			return yield(ref, nil)
		}
		if since.Before(time.Now().Add(-eventsFor)) && !p.listObjects(ctx, since, once) {
			return
		}
		p.listEvents(ctx, since, once)
	}
}

// listEvents passes what events since a time are about to visit, until it returns false.
func (p *Provider) listEvents(ctx context.Context, since time.Time, visit func(payments.Ref, error) bool) {
	params := &stripe.EventListParams{ListParams: wholePage(), CreatedRange: from(since), Types: stripe.StringSlice(EventTypes())}
	for event, err := range p.api.V1Events.List(ctx, params) {
		if err != nil {
			visit(payments.Ref{}, explain("list events", err))
			return
		}
		if event.Data == nil {
			continue
		}
		if !visit(refOf(event.Data.Raw)) {
			return
		}
	}
}

// listObjects passes everything that can have changed since a time before the first event. It returns false once visit has.
//
// Disputes have no bound: a bank can decide years later, and there are few of them.
func (p *Provider) listObjects(ctx context.Context, since time.Time, visit func(payments.Ref, error) bool) bool {
	created := from(since.Add(-settlesWithin))
	payment := func(intent *stripe.PaymentIntent) payments.Ref {
		if intent == nil {
			return payments.Ref{}
		}
		return payments.Ref{Kind: payments.KindPayment, ID: intent.ID}
	}
	subscriptions := &stripe.SubscriptionListParams{ListParams: wholePage(), Status: stripe.String("all")}
	return each(p.api.V1Subscriptions.List(ctx, subscriptions), "list subscriptions", visit,
		func(s *stripe.Subscription) payments.Ref {
			return payments.Ref{Kind: payments.KindSubscription, ID: s.ID}
		}) &&
		each(p.api.V1PaymentIntents.List(ctx, &stripe.PaymentIntentListParams{ListParams: wholePage(), CreatedRange: created}),
			"list payments", visit, payment) &&
		each(p.api.V1Refunds.List(ctx, &stripe.RefundListParams{ListParams: wholePage(), CreatedRange: created}),
			"list refunds", visit, func(r *stripe.Refund) payments.Ref { return payment(r.PaymentIntent) }) &&
		each(p.api.V1Disputes.List(ctx, &stripe.DisputeListParams{ListParams: wholePage()}),
			"list disputes", visit, func(d *stripe.Dispute) payments.Ref { return payment(d.PaymentIntent) })
}

// each passes the Ref of each object of a list to visit. It returns false once visit has, or after an error.
func each[T any](list stripe.Seq2[T, error], doing string, visit func(payments.Ref, error) bool, ref func(T) payments.Ref) bool {
	for object, err := range list {
		if err != nil {
			visit(payments.Ref{}, explain(doing, err))
			return false
		}
		if !visit(ref(object), nil) {
			return false
		}
	}
	return true
}

// from bounds the creation of objects; nil for the zero time. Stripe's times are whole seconds, so it rounds down.
func from(since time.Time) *stripe.RangeQueryParams {
	if since.Unix() <= 0 {
		return nil
	}
	return &stripe.RangeQueryParams{GreaterThanOrEqual: since.Unix()}
}
