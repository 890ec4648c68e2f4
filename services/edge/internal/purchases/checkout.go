package purchases

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
)

const (
	currency = "usd" // of all price books

	// Bounds of a purchase, in cents. Providers refuse smaller ones, and a typing error should not cost a fortune.
	minCents = 100
	maxCents = 1_000_000

	minFeeCents = 50 // of a plan that is sold
)

// Order is what an account holder wants to buy: one of both.
type Order struct {
	Plan    string
	When    string // accounts.Now or accounts.PeriodEnd; "": at the paid period's end for a cheaper plan, and now for others
	Credits plan.Micros
}

// Opened is where an order leads.
type Opened struct {
	URL         string // of the page to pay on, or of the plan's page if nothing is to be paid
	Paying      bool   // URL is the provider's
	EffectiveMs int64  // when the plan changes without a payment; 0: with the payment, or it stays
	Replayed    bool   // it was ordered before, under the same Idempotency-Key
}

// CreditCents is the price of an amount of credits, rounded up to a cent. ok is false if it is over maxCents.
func CreditCents(book *plan.Book, credits plan.Micros) (cents uint64, ok bool) {
	const micros = uint64(plan.Credit)
	high, low := bits.Mul64(num.Uint64(credits), num.Uint64(book.CreditPrice))
	perCent := micros * micros / 100
	if high >= perCent {
		return 0, false
	}
	cents, rest := bits.Div64(high, low, perCent)
	if rest > 0 {
		cents++
	}
	return cents, cents <= maxCents
}

// Checkout opens the provider's page for an order. A plan that begins with the next paid period needs no page, and neither does
// keeping the present one. A repetition under the same Idempotency-Key has no further effect for a day, and returns the same page.
func (p *Purchases) Checkout(c *endpoint.Call, o Order) (Opened, error) {
	account := c.Who.Account
	if !p.Online() {
		return Opened{}, p.notConfigured()
	}
	book, err := p.Book()
	if err != nil {
		return Opened{}, err
	}
	provider, err := p.provider(p.ctx)
	if err != nil {
		return Opened{}, p.failed(err)
	}
	order := payments.Order{Currency: currency, Key: rand.Text()}
	if len(c.Idem) > 0 {
		order.Key = hex.EncodeToString(c.Idem)
	}
	if o.Plan != "" {
		changed, err := p.orderPlan(c, provider, &order, book, o)
		if err != nil {
			return Opened{}, err
		}
		if changed != nil {
			return *changed, nil
		}
	} else if err := orderCredits(&order, book, o.Credits); err != nil {
		return Opened{}, err
	}
	if order.Customer, err = p.customer(account); err != nil {
		return Opened{}, err
	}
	order.CancelURL = p.URL(PlanPath)
	order.SuccessURL = p.cfg.SuccessURL
	if order.SuccessURL == "" {
		order.SuccessURL = order.CancelURL + "?paid=1"
	}
	page, err := provider.Checkout(p.ctx, order)
	return Opened{URL: page.URL, Paying: true, Replayed: page.Replayed}, p.refused(err)
}

// refused is the provider's error about an order as the API shows it.
func (p *Purchases) refused(err error) error {
	if errors.Is(err, payments.ErrKeyReused) {
		return endpoint.IdempotencyMismatch()
	}
	return p.failed(err)
}

func orderCredits(order *payments.Order, book *plan.Book, credits plan.Micros) error {
	cents, err := sold(book, credits)
	order.CreditsMicros, order.AmountMinor, order.Description = int64(credits), num.Int64(cents), plan.Short(credits)+" credits"
	return err
}

// sold is the price of credits that can be bought at a time, in cents.
func sold(book *plan.Book, credits plan.Micros) (uint64, error) {
	cents, ok := CreditCents(book, credits)
	if !ok || cents < minCents {
		return 0, httperr.InvalidField("credits", fmt.Sprintf("must cost from $%d to $%d, and a credit costs $%s", minCents/100, maxCents/100, plan.Short(book.CreditPrice))).
			InForm(fmt.Sprintf("Buy credits for $%d to $%d at a time.", minCents/100, maxCents/100))
	}
	return cents, nil
}

// customer is an account as the provider knows it.
func (p *Purchases) customer(account event.AccountID) (payments.Customer, error) {
	email, err := p.accounts.EmailOf(account)
	return payments.Customer{Account: account.String(), Email: email}, err
}

// Portal opens the provider's page for payment methods and invoices, and returns its address.
func (p *Purchases) Portal(account event.AccountID) (string, error) {
	if !p.Online() {
		return "", p.notConfigured()
	}
	customer, err := p.customer(account)
	if err != nil {
		return "", err
	}
	provider, err := p.provider(p.ctx)
	if err != nil {
		return "", p.failed(err)
	}
	page, err := provider.Portal(p.ctx, customer, p.URL(PlanPath))
	return page, p.failed(err)
}

func (p *Purchases) notConfigured() error {
	text := "This service takes no payments online."
	if p.cfg.Contact != "" {
		text += " To buy credits or change the plan, ask " + p.cfg.Contact + "."
	}
	return fault.New(fault.PaymentsNotConfigured, "%s", text)
}

// failed is the provider's error as the API shows it: what was asked for may be asked for again.
func (p *Purchases) failed(err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	failure := fault.New(fault.Unavailable, "The payment provider does not answer as expected. Try again later.").Because(err)
	failure.RetryAfter = 10
	return failure
}
