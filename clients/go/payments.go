package client

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// Plan is the plan of an account, and what pays for it.
type Plan struct {
	Meta
	Plan         string        `json:"plan"`
	NextPlan     string        `json:"nextPlan"`     // from the next calendar month on, set by an admin; empty if the plan stays
	MonthlyFee   string        `json:"monthlyFee"`   // US dollars, such as "9.00"
	Subscription *Subscription `json:"subscription"` // nil without one
	Balance      Credits       `json:"balance"`      // below zero if credits are owed
	CreditPrice  string        `json:"creditPrice"`  // US dollars
	TopUp        *TopUp        `json:"topUp"`        // nil: off
	Payments     struct {
		Online  bool   `json:"online"`  // checkouts and top-ups work
		Contact string `json:"contact"` // an e-mail address or a URL for questions; may be empty
	} `json:"payments"`
}

// Subscription pays for a plan every month.
type Subscription struct {
	Status       string    `json:"status"`       // active, past_due or canceled; more may be added
	PeriodEndsAt time.Time `json:"periodEndsAt"` // when the next fee is due, or the plan ends
	NextPlan     string    `json:"nextPlan"`     // from then on; empty if the plan stays, or ends
	MonthlyFee   string    `json:"monthlyFee"`   // US dollars before tax, as the subscription began
}

// TopUp buys credits by itself.
type TopUp struct {
	Below           Credits `json:"below"`           // the balance below which credits are bought
	Credits         Credits `json:"credits"`         // bought each time
	MonthlyLimit    Credits `json:"monthlyLimit"`    // bought in a UTC month at most
	BoughtThisMonth Credits `json:"boughtThisMonth"` // with what is being charged
	Status          string  `json:"status"`          // active, charging or failed; more may be added
	LastFailure     string  `json:"lastFailure"`     // such as card_declined; empty for none
}

// Plan returns the plan of the account.
func (a *Account) Plan(ctx context.Context, options ...CallOption) (*Plan, error) {
	return fetch[Plan](ctx, a.c, newRequest(http.MethodGet, "/api/users/user/plan", options))
}

// Purchase is what to buy: one of both.
type Purchase struct {
	Credits Credits
	Plan    string // name of a plan with a monthly fee, as in Prices; "free" ends the subscription with its period
	When    string // "now" or "periodEnd", for a plan; "": at the paid period's end if it is cheaper, and now otherwise
}

// Checkout is where an order leads.
type Checkout struct {
	Meta
	URL         string    `json:"url"`         // page to pay on, or the plan's page if nothing is to be paid; a person opens it in a browser
	EffectiveAt time.Time `json:"effectiveAt"` // when the plan changes without a payment; zero if it changes on the payment, or stays
}

// Checkout opens a page to pay an order on, or changes the plan at the end of the paid period. An API key with scopes needs
// payments.checkout, and can only open pages. Where payments are not taken online,
// the error has the code payments_not_configured.
func (a *Account) Checkout(ctx context.Context, order Purchase, options ...CallOption) (*Checkout, error) {
	r := once(http.MethodPost, "/api/users/user/checkout", options)
	body := map[string]any{}
	if order.Plan == "" {
		body["credits"] = order.Credits
	} else {
		body["plan"] = order.Plan
	}
	if order.When != "" {
		body["when"] = order.When
	}
	if err := r.json(body); err != nil {
		return nil, err
	}
	return fetch[Checkout](ctx, a.c, r)
}

// TopUpRule says when credits are bought with the saved payment method.
type TopUpRule struct {
	Below        Credits `json:"below"`
	Credits      Credits `json:"credits"`
	MonthlyLimit Credits `json:"monthlyLimit"`
}

// UpdatedTopUp is the rule in force.
type UpdatedTopUp struct {
	Meta
	TopUp *TopUp `json:"topUp"` // nil: off
}

// SetTopUp sets automatic top-ups; nil turns them off. It requires a session.
func (a *Account) SetTopUp(ctx context.Context, rule *TopUpRule, options ...CallOption) (*UpdatedTopUp, error) {
	r := once(http.MethodPut, "/api/users/user/top-up", options)
	var body any = rule
	if rule == nil {
		body = map[string]any{"credits": Credits(0)}
	}
	if err := r.json(body); err != nil {
		return nil, err
	}
	return fetch[UpdatedTopUp](ctx, a.c, r)
}

// Payment is a payment of an account.
type Payment struct {
	ID              string    `json:"id"`     // at its provider; LedgerEntry.Payment
	Number          int64     `json:"number"` // among the account's payments, from 1
	Time            time.Time `json:"time"`
	Provider        string    `json:"provider"` // manual for one that an admin has recorded
	Credits         Credits   `json:"credits"`
	CreditsReversed Credits   `json:"creditsReversed"` // taken back after a refund or a dispute
	Plan            string    `json:"plan"`            // whose fee it is; empty for credits
	AmountUSD       string    `json:"amountUsd"`       // paid, with tax; empty if it was not recorded
	TaxUSD          string    `json:"taxUsd"`
	RefundedUSD     string    `json:"refundedUsd"` // refunded or disputed, out of AmountUSD
	TopUp           bool      `json:"topUp"`       // automatic
}

type paymentsPage struct {
	page
	Payments []*Payment `json:"payments"`
}

// Payments iterates over the account's payments, newest first.
func (a *Account) Payments(ctx context.Context, options ...CallOption) iter.Seq2[*Payment, error] {
	return pages(ctx, a.c, func(cursor string) *request {
		r := newRequest(http.MethodGet, "/api/users/user/payments", options)
		setPage(r.query, 0, cursor, "")
		return r
	}, func(p paymentsPage) []*Payment { return p.Payments })
}
