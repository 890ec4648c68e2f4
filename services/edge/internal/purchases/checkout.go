package purchases

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"

	"quire.dev/pkg/event"
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
	Credits plan.Micros
}

// CreditCents is the price of an amount of credits, rounded up to a cent. ok is false if it is over maxCents.
func CreditCents(book *plan.Book, credits plan.Micros) (cents uint64, ok bool) {
	const micros = uint64(plan.Credit)
	high, low := bits.Mul64(uint64(credits), uint64(book.CreditPrice))
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

// Checkout opens the provider's page for an order, and returns its address. A repetition under the same Idempotency-Key returns the
// same page for a day.
func (p *Purchases) Checkout(c *endpoint.Call, o Order) (string, error) {
	account := c.Who.Account
	if !p.Online() {
		return "", p.notConfigured()
	}
	book, err := p.Book()
	if err != nil {
		return "", err
	}
	order := payments.Order{Currency: currency, Key: rand.Text()}
	if len(c.Idem) > 0 {
		order.Key = hex.EncodeToString(c.Idem)
	}
	if o.Plan != "" {
		err = p.orderPlan(&order, account, book, o.Plan)
	} else {
		err = orderCredits(&order, book, o.Credits)
	}
	if err != nil {
		return "", err
	}
	if order.Customer, err = p.customer(account); err != nil {
		return "", err
	}
	order.CancelURL = p.URL(PlanPath)
	order.SuccessURL = p.cfg.SuccessURL
	if order.SuccessURL == "" {
		order.SuccessURL = order.CancelURL + "?paid=1"
	}
	provider, err := p.provider(p.ctx)
	if err != nil {
		return "", p.failed(err)
	}
	page, err := provider.Checkout(p.ctx, order)
	if page.Replayed {
		c.Set(endpoint.HeaderReplayed, "true")
	}
	if errors.Is(err, payments.ErrKeyReused) {
		err = endpoint.IdempotencyMismatch()
	}
	return page.URL, p.failed(err)
}

func orderCredits(order *payments.Order, book *plan.Book, credits plan.Micros) error {
	cents, err := sold(book, credits)
	order.CreditsMicros, order.AmountMinor, order.Description = int64(credits), int64(cents), plan.Short(credits)+" credits"
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

// Sold reports whether a plan can be bought.
func Sold(book *plan.Book, tier plan.Tier) bool {
	return tier != plan.Free && tier != plan.Admin && book.Plans[tier].FeeCents >= minFeeCents
}

func (p *Purchases) orderPlan(order *payments.Order, account event.AccountID, book *plan.Book, name string) error {
	tier, found := book.Tier(name)
	now, err := p.PlanOf(account)
	switch {
	case err != nil:
		return err
	case found && plan.Tier(now.Tier) == tier && !Subscription(now).GetCancels():
		return endpoint.FailedAt("plan", fault.PlanCurrent, "The account is already on this plan.")
	case !found || !Sold(book, tier):
		return httperr.InvalidField("plan", "must be a plan with a monthly fee: GET /api/prices lists all plans").InForm("This plan is not on sale.")
	}
	order.Plan, order.AmountMinor, order.Description = name, int64(book.Plans[tier].FeeCents), "Quire "+tier.Title(name)+" plan"
	return nil
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

// EndWithPeriod cancels the account's subscriptions, if any, so that their fees end. One that the provider does not know as this
// installation's keeps nobody from deleting an account.
func (p *Purchases) EndWithPeriod(account event.AccountID) error {
	now, err := p.PlanOf(account)
	if err != nil || len(now.Subscriptions) == 0 {
		return err
	}
	err = p.cancel(now)
	if errors.Is(err, payments.ErrMismatch) || errors.Is(err, payments.ErrForeign) || fault.KindOf(err) == fault.PaymentsNotConfigured {
		p.metrics.mismatches.Inc()
		p.log.Error("the subscription of a deleted account can't be canceled: end it in the provider's dashboard", "account", account.String(), "cause", err)
		return nil
	}
	return p.failed(err)
}

// Cancel ends the account's subscription with its paid period. The plan changes once the provider has ended it.
func (p *Purchases) Cancel(account event.AccountID) error {
	now, err := p.PlanOf(account)
	switch {
	case err != nil:
		return err
	case len(now.Subscriptions) == 0:
		return fault.New(fault.NotFound, "The account has no subscription any more.")
	}
	return p.failed(p.cancel(now))
}

// cancel cancels all subscriptions at the end of their periods.
func (p *Purchases) cancel(now *event.PlanAnswer) error {
	provider, err := p.provider(p.ctx)
	if err != nil {
		return err
	}
	for _, s := range now.Subscriptions {
		if s.Provider != provider.Name() {
			return p.notConfigured()
		}
		if err := provider.Cancel(p.ctx, s.Id, true); err != nil && !errors.Is(err, payments.ErrNotFound) {
			return err
		}
		if err := p.Sync(p.ctx, payments.Ref{Kind: payments.KindSubscription, ID: s.Id}); err != nil {
			p.log.Warn("a canceled subscription will be looked at again", "id", s.Id, "cause", err) // by its webhook
		}
	}
	return nil
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
