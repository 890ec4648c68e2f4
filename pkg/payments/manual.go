package payments

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// ManualName is the name of Manual.
const ManualName = "manual"

// Manual is the provider where payments are arranged with the operator: an invoice is paid outside of Quire, and an admin records
// that. It has no pages and saves no payment methods, and knows of no payment before it is recorded.
type Manual struct{}

var _ Provider = Manual{}

// Name implements Provider.
func (Manual) Name() string { return ManualName }

// Checkout implements Provider: ErrOffline.
func (Manual) Checkout(context.Context, Order) (Page, error) { return Page{}, ErrOffline }

// Portal implements Provider: ErrOffline.
func (Manual) Portal(context.Context, Customer, string) (string, error) { return "", ErrOffline }

// Receive implements Provider: nothing is signed, so every webhook is ErrSignature.
func (Manual) Receive(http.Header, []byte) (Ref, error) { return Ref{}, ErrSignature }

// Payment implements Provider: ErrNotFound.
func (Manual) Payment(context.Context, string) (Payment, error) { return Payment{}, ErrNotFound }

// Subscription implements Provider: ErrNotFound.
func (Manual) Subscription(context.Context, string) (Subscription, error) {
	return Subscription{}, ErrNotFound
}

// Cancel implements Provider: ErrNotFound.
func (Manual) Cancel(context.Context, string, bool) error { return ErrNotFound }

// Change implements Provider: ErrNotFound.
func (Manual) Change(context.Context, string, PlanChange) (Changed, error) {
	return Changed{}, ErrNotFound
}

// Changed implements Provider: nothing.
func (Manual) Changed(context.Context, time.Time) iter.Seq2[Ref, error] {
	return func(func(Ref, error) bool) {}
}

// Charge implements Provider: no payment method is ever saved.
func (Manual) Charge(context.Context, TopUp) (Payment, error) {
	return Payment{}, &Declined{Reason: NoPaymentMethod, Message: "No payment method is saved."}
}
