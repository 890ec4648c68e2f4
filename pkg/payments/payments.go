// Package payments is what Quire needs of a payment provider: hosted pages where people pay, the current state of payments
// and subscriptions, and charges of a saved payment method.
//
// Everything is state-based. A webhook or a listing only names an object that may have changed (a Ref); the caller then reads
// the object's current state and brings its own records in line with it. So webhooks may come twice, late, out of order or
// never, and the result is the same. Card data never reaches Quire: people enter it on the provider's pages.
//
// Package stripe implements Provider, Manual is the one of an installation without, and package stripe/stripetest is a stand-in
// for Stripe's servers.
package payments

import (
	"context"
	"errors"
	"iter"
	"math/bits"
	"net/http"
	"time"

	"quire.dev/pkg/num"
)

// Errors that a Provider wraps. Any other error means that the provider refused the request, which had no effect.
var (
	// ErrSignature: a webhook's signature is missing, invalid, or older than five minutes.
	ErrSignature = errors.New("invalid webhook signature")
	// ErrNotFound: the provider has no such payment or subscription.
	ErrNotFound = errors.New("not found at the payment provider")
	// ErrForeign: the object exists but doesn't belong to this installation, such as an invoice sent by hand from the same
	// provider account. Skip it.
	ErrForeign = errors.New("not created by this installation")
	// ErrMismatch: the object belongs to this installation, but its amount, currency or metadata isn't what Quire set. It must
	// not be credited; an operator has to investigate.
	ErrMismatch = errors.New("does not match its order")
	// ErrUnavailable: the provider failed, was busy or didn't answer in time. What was asked for may have happened: retry with
	// the same key.
	ErrUnavailable = errors.New("payment provider unavailable, outcome unknown")
	// ErrInvalid: an argument is missing or out of range. Nothing was sent.
	ErrInvalid = errors.New("invalid payment argument")
	// ErrKeyReused: another order was sent under this key.
	ErrKeyReused = errors.New("idempotency key already used for another order")
	// ErrOffline: the provider has no pages. The account holder has to ask the operator.
	ErrOffline = errors.New("payments are not taken online")
)

// Declined is the error of a charge that the provider or the bank declined. No money moved, and a retry with the same key gets
// the same answer.
type Declined struct {
	Reason  string // machine-readable, such as insufficient_funds; NoPaymentMethod if none is saved
	Message string // for the account holder, in English
	Payment string // ID of the failed payment; "" if none was created
}

// Reasons of a Declined that Quire itself knows. All others are the provider's codes.
const (
	NoPaymentMethod        = "no_payment_method"       // the account holder has to buy credits or save a card first
	AuthenticationRequired = "authentication_required" // the bank wants the account holder to confirm: only possible on the provider's page
)

// AmountOutOfRange is the reason of a top-up that is not tried: at the credits' present price the provider would not take it.
const AmountOutOfRange = "amount_out_of_range"

// FailureText explains in a sentence why a charge failed. reason is the reason of a Declined, or AmountOutOfRange.
func FailureText(reason string) string {
	switch reason {
	case "":
		return ""
	case NoPaymentMethod:
		return "No payment method is saved."
	case AmountOutOfRange:
		return "At the current price the amount is too small or too large."
	case "expired_card":
		return "The card has expired."
	case "insufficient_funds":
		return "The card has insufficient funds."
	case AuthenticationRequired:
		return "The bank asks you to confirm payments in person."
	case "card_declined", "generic_decline", "do_not_honor":
		return "The card was declined."
	}
	return "The payment was declined (" + reason + ")."
}

func (d *Declined) Error() string { return "payment declined: " + d.Reason }

// Provider is a payment provider. Its methods are safe for concurrent use, and each is bounded in time: by ctx, and by the
// provider's own time limit for a request and its retries. Errors carry no secrets and no card data.
type Provider interface {
	// Name is the provider's name in events, settings and metrics, such as "stripe".
	Name() string

	// Checkout opens a hosted page that takes the payment of an order. A repetition with the same
	// Order.Key within a day returns the same page; another order under that key is ErrKeyReused.
	Checkout(ctx context.Context, o Order) (Page, error)

	// Portal opens a hosted page on which a customer changes payment methods, sees invoices and cancels subscriptions. It leads
	// back to returnURL.
	Portal(ctx context.Context, c Customer, returnURL string) (url string, err error)

	// Receive verifies a webhook and returns the object it is about, or the zero Ref if Quire has no interest in it. It never
	// calls the provider. A webhook that it can't trust is ErrSignature.
	Receive(header http.Header, body []byte) (Ref, error)

	// Payment reads the current state of a payment: ErrNotFound, ErrForeign or ErrMismatch if it can't be used.
	Payment(ctx context.Context, id string) (Payment, error)

	// Subscription reads the current state of a subscription, with the errors of Payment.
	Subscription(ctx context.Context, id string) (Subscription, error)

	// Cancel ends a subscription: at the end of the paid period, or immediately, where what is left of the period, if its fee was
	// paid, is credited to the customer's next invoices. Canceling an ended one is not an error. Before an account is deleted or moves to another plan, its subscription must be canceled, or its fees go on.
	Cancel(ctx context.Context, subscription string, atPeriodEnd bool) error

	// Change moves a subscription to another plan at the end of the paid period, and takes back a cancellation. Nothing is charged
	// before that. The plan that it is on already takes back an earlier Change, too. A repetition with the same PlanChange.Key
	// within a day returns what the first one did and has no further effect; another change or order under that key, or one in the
	// next period, is ErrKeyReused. A subscription that ended is ErrNotFound.
	Change(ctx context.Context, subscription string, to PlanChange) (Changed, error)

	// Changed yields each payment and subscription that may have changed since a time, in no particular order: new ones, and
	// old ones with a later refund, dispute or renewal. The zero time yields all there are. It ends at the first error, which
	// it yields with the zero Ref. Objects that change while it runs may be missing, so pass a time well before the start of
	// the previous complete run, such as an hour.
	Changed(ctx context.Context, since time.Time) iter.Seq2[Ref, error]

	// Charge charges the account's saved payment method off-session. TopUp.Key makes it happen at most once, however often and
	// from however many processes it is called. A *Declined error is final for the key; after ErrUnavailable, retry with the same
	// key. The payment may still be pending.
	Charge(ctx context.Context, t TopUp) (Payment, error)
}

// Kind says what a Ref points at.
type Kind string

// The kinds of objects. The zero Ref has none of them.
const (
	KindPayment      Kind = "payment"
	KindSubscription Kind = "subscription"
)

// Ref names an object of the provider that may have changed.
type Ref struct {
	Kind Kind
	ID   string // for Provider.Payment or Provider.Subscription
}

// Customer is an account as the provider knows it. There is one customer per account.
type Customer struct {
	Account string // the account number, as the caller writes it
	Email   string // for the provider's receipts; "" leaves the known one
}

// Order is what a Checkout sells: credits or a plan.
type Order struct {
	Customer
	CreditsMicros int64  // credits in micros; 0 if a plan is sold
	Plan          string // name of a plan with a monthly fee; "" if credits are sold
	AmountMinor   int64  // price, or monthly fee, before tax, in the currency's minor unit
	Currency      string // ISO 4217, lower case, such as "usd"
	Description   string // shown on the page and the receipt, such as "500 credits"
	SuccessURL    string // where the page leads after the payment, which may still be pending then
	CancelURL     string // where the page leads without a payment
	Key           string // idempotency key, 1 to 100 printable ASCII characters; a new one for each purchase
}

// PlanChange is a plan that a subscription moves to.
type PlanChange struct {
	Plan        string // name of a plan with a monthly fee; "": the subscription ends
	AmountMinor int64  // its monthly fee before tax, in the minor unit of the subscription's currency. The present plan keeps its own
	Description string // shown on invoices, such as "Quire Pro plan"
	Key         string // idempotency key, 1 to 100 printable ASCII characters
}

// Changed is a subscription after a Change.
type Changed struct {
	Subscription Subscription
	Replayed     bool // an earlier call with the same key made the change, and this is the state it left
}

// Page is a hosted page.
type Page struct {
	URL      string
	Replayed bool // it was opened before, under the same key
}

// TopUp is a charge for credits of a saved payment method.
type TopUp struct {
	Account       string
	CreditsMicros int64  // credits in micros
	AmountMinor   int64  // price in the currency's minor unit
	Currency      string // ISO 4217, lower case
	Description   string // shown on the receipt
	Key           string // idempotency key, 1 to 100 printable ASCII characters: the id of what caused the charge
}

// State is the state of a payment.
type State string

// The states of a payment. Only Paid moved money. Failed may still become Paid, if its holder tries again on the same page.
const (
	Pending State = "pending"
	Paid    State = "paid"
	Failed  State = "failed"
)

// Payment is the current state of one payment.
type Payment struct {
	ID            string
	Account       string // as given in the Order or TopUp
	CreditsMicros int64  // credits bought, in micros; 0 for a plan's fee
	Plan          string // the plan whose fee this is; "" for credits
	Subscription  string // the subscription whose fee this is; "" for credits
	AmountMinor   int64  // the total paid, or to be paid, including tax, in the currency's minor unit
	TaxMinor      int64  // the part of AmountMinor that is tax
	Currency      string // ISO 4217, lower case
	State         State
	RefundedMinor int64 // refunds that succeeded or are under way
	DisputedMinor int64 // disputes that are under way or lost; inquiries and disputes won are 0
	Created       time.Time
	FailureReason string // why the last attempt failed, as in Declined.Reason; "" unless State is Failed
	Number        string // of the provider's invoice or receipt, if there is one
	URL           string // of the provider's invoice or receipt, if there is one
}

// KeptMinor is the part of AmountMinor that is neither refunded nor disputed: 0 unless the payment is paid. A dispute of a
// payment that is refunded already takes no more than the whole.
func (p Payment) KeptMinor() int64 {
	if p.State != Paid {
		return 0
	}
	return max(0, p.AmountMinor-p.RefundedMinor-p.DisputedMinor)
}

// KeptCreditsMicros is the share of CreditsMicros that the payment is still good for, in proportion to KeptMinor and rounded
// down to a micro: all of them after a payment, none after a full refund or while all of it is disputed.
func (p Payment) KeptCreditsMicros() int64 {
	kept := p.KeptMinor()
	if kept <= 0 || p.CreditsMicros <= 0 || kept >= p.AmountMinor {
		return p.CreditsMicros * boolInt(kept > 0)
	}
	high, low := bits.Mul64(uint64(p.CreditsMicros), uint64(kept))
	quotient, _ := bits.Div64(high, low, num.Uint64(p.AmountMinor)) // below CreditsMicros, since kept is below AmountMinor
	return num.Int64(quotient)
}

func boolInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Subscription is the current state of a plan that is paid monthly.
type Subscription struct {
	ID                string
	Account           string
	Plan              string
	Active            bool      // the plan is in force: paid, or PastDue
	Ended             bool      // it is over for good; one that is neither Active nor Ended, such as unpaid or paused, can come back
	PastDue           bool      // the last fee could not be collected yet, and the provider retries
	CurrentPeriodEnd  time.Time // when the next fee is due, or a canceled plan ends
	CancelAtPeriodEnd bool      // no further fee: the plan ends at CurrentPeriodEnd
	NextPlan          string    // the plan from CurrentPeriodEnd on; "": the same
	FeeMinor          int64     // monthly fee of Plan before tax, in the currency's minor unit
	LatestPayment     string    // ID of the payment of the newest fee; "" before the first
	Created           time.Time
}
