// Package purchases sells credits and plans through a payment provider: it opens the provider's pages, and keeps each account in
// line with what the provider says was paid.
package purchases

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/pricebook"
	"quire.dev/pkg/telemetry"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/bus"
	"quire.dev/services/edge/internal/endpoint"
)

// Connect returns the provider for an installation, whose id tells its payments apart from others' at the same provider.
type Connect func(installation string) (payments.Provider, error)

// Config configures what is sold.
type Config struct {
	Connect    Connect // nil: payments.Manual
	Contact    string  // where account holders ask: an address or a URL; empty: not known
	SuccessURL string  // page after a payment; empty: PlanPath
}

// Deps are the dependencies of Purchases. Metrics may be nil.
type Deps struct {
	Bus      *bus.Bus
	Accounts *accounts.Accounts
	Logger   *slog.Logger
	Metrics  *telemetry.Metrics
}

// connectTimeout is how long billing may take to name the installation.
const connectTimeout = 5 * time.Second

// PlanPath is the console's page about the plan.
const PlanPath = endpoint.PlanPath

// Purchases sells credits and plans. Safe for concurrent use.
type Purchases struct {
	*endpoint.Base
	cfg      Config
	bus      *bus.Bus
	accounts *accounts.Accounts
	log      *slog.Logger
	ctx      context.Context // for calls to other components
	metrics  metrics

	connecting singleflight.Group
	connected  atomic.Pointer[payments.Provider] // nil before the first use
}

// New returns the endpoints for plans and payments.
func New(base *endpoint.Base, cfg Config, deps Deps) *Purchases {
	return &Purchases{
		Base: base, cfg: cfg, bus: deps.Bus, accounts: deps.Accounts, log: deps.Logger, ctx: base.HTTP().Context(), metrics: newMetrics(deps.Metrics),
	}
}

// Online reports whether payments are taken online.
func (p *Purchases) Online() bool { return p.cfg.Connect != nil }

// Contact is where account holders ask, "" if that is not known.
func (p *Purchases) Contact() string { return p.cfg.Contact }

// provider connects to the provider at its first use, since only billing knows the installation.
func (p *Purchases) provider(ctx context.Context) (payments.Provider, error) {
	if !p.Online() {
		return payments.Manual{}, nil
	}
	if known := p.connected.Load(); known != nil {
		return *known, nil
	}
	connected, err, _ := p.connecting.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), connectTimeout)
		defer cancel()
		installation, err := p.bus.CheckPartitions(ctx)
		if err != nil {
			return nil, err
		}
		connected, err := p.cfg.Connect(installation)
		if err == nil {
			p.connected.Store(&connected)
		}
		return connected, err
	})
	if err != nil {
		return nil, err
	}
	return connected.(payments.Provider), nil
}

// Book is the price book in force.
func (p *Purchases) Book() (*plan.Book, error) {
	found, err := p.Prices()
	if found == nil {
		return nil, err
	}
	return pricebook.Of(found), nil
}

// PlanOf returns an account's plan and what pays for it.
func (p *Purchases) PlanOf(account event.AccountID) (*event.PlanAnswer, error) {
	a, err := p.Query(account, &event.Query{Query: &event.Query_Plan{Plan: &event.PlanQuery{}}})
	if err == nil && a.GetPlan() == nil {
		err = endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetPlan(), err
}

// PaymentsOf returns a page of an account's payments, newest first, before a payment's number; 0: from the newest.
func (p *Purchases) PaymentsOf(account event.AccountID, before uint64, limit int) (*event.PaymentsAnswer, error) {
	return p.payments(account, &event.PaymentsQuery{Before: before, Limit: num.Uint32(limit)})
}

func (p *Purchases) payments(account event.AccountID, q *event.PaymentsQuery) (*event.PaymentsAnswer, error) {
	a, err := p.Query(account, &event.Query{Query: &event.Query_Payments{Payments: q}})
	if err == nil && a.GetPayments() == nil {
		err = endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetPayments(), err
}

// Subscription is the subscription that an account's plan is paid with, nil without one.
func Subscription(of *event.PlanAnswer) *event.SetSubscription {
	if n := len(of.GetSubscriptions()); n > 0 {
		return of.Subscriptions[n-1]
	}
	return nil
}
