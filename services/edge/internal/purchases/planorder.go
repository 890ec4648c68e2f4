package purchases

import (
	"errors"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/payments"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/accounts"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/fault"
	"quire.dev/services/edge/internal/httpin/httperr"
)

// Sold reports whether a plan can be bought.
func Sold(book *plan.Book, tier plan.Tier) bool {
	return tier != plan.Free && tier != plan.Admin && book.Plans[tier].FeeCents >= minFeeCents
}

// Later reports whether an order of another plan waits for the end of the period that is paid, unless asked otherwise: if it costs less
// than what is paid. fee and paidFee are monthly, in cents.
func Later(fee, paidFee uint64, pastDue bool) bool { return !pastDue && fee < paidFee }

// orderPlan completes an order of a plan. If nothing is to be paid for it, it has the subscription change with its period, and returns
// the result; nil: it is paid on a page. It decides by the provider's present state, which the journal may not have yet.
func (p *Purchases) orderPlan(c *endpoint.Call, provider payments.Provider, order *payments.Order, book *plan.Book, o Order) (*Opened, error) {
	tier, found := book.Tier(o.Plan)
	now, err := p.PlanOf(c.Who.Account)
	if err != nil {
		return nil, err
	}
	paid, err := p.paid(provider, now)
	if err != nil {
		return nil, err
	}
	order.Plan, order.AmountMinor, order.Description = o.Plan, num.Int64(book.Plans[tier].FeeCents), "Quire "+tier.Title(o.Plan)+" plan"
	switch {
	case paid != nil && paid.Plan == o.Plan:
		return p.keepPlan(c, provider, order, paid)
	case paid == nil && found && plan.Tier(now.Tier) == tier:
		return nil, planCurrent()
	case paid != nil && found && tier == plan.Free:
		if o.When == accounts.Now {
			return nil, httperr.InvalidField("when", "must be periodEnd for this plan: the paid one stays until its period ends")
		}
		return p.changeLater(c, provider, paid, payments.PlanChange{Key: order.Key})
	case !found || !Sold(book, tier):
		return nil, httperr.InvalidField("plan", "must be a plan with a monthly fee: GET /api/prices lists all plans").InForm("This plan is not on sale.")
	case paid == nil && o.When == accounts.PeriodEnd:
		return nil, httperr.InvalidField("when", "must be now: the account has no subscription whose period could end")
	case paid == nil:
		return nil, nil
	case o.When == accounts.PeriodEnd, o.When == "" && Later(num.Uint64(order.AmountMinor), num.Uint64(paid.FeeMinor), paid.PastDue):
		return p.changeLater(c, provider, paid, changeTo(order))
	}
	return nil, nil
}

func planCurrent() error {
	return endpoint.FailedAt("plan", fault.PlanCurrent, "The account is already on this plan.")
}

func changeTo(order *payments.Order) payments.PlanChange {
	return payments.PlanChange{Plan: order.Plan, AmountMinor: order.AmountMinor, Description: order.Description, Key: order.Key}
}

// paid is the subscription that the account's plan is paid with, as the provider has it now; nil without one.
func (p *Purchases) paid(provider payments.Provider, now *event.PlanAnswer) (*payments.Subscription, error) {
	known := Subscription(now)
	if known == nil || known.Provider != provider.Name() {
		return nil, nil
	}
	s, err := provider.Subscription(p.ctx, known.Id)
	switch {
	case errors.Is(err, payments.ErrNotFound), err == nil && !s.Active:
		return nil, nil
	case err != nil:
		return nil, p.unchanged(known.Id, err)
	}
	return &s, nil
}

// keepPlan takes back what the period of a subscription would end with. If it ends with nothing, only a retry succeeds.
func (p *Purchases) keepPlan(c *endpoint.Call, provider payments.Provider, order *payments.Order, paid *payments.Subscription) (*Opened, error) {
	pending := paid.CancelAtPeriodEnd || paid.NextPlan != ""
	if !pending && len(c.Idem) == 0 {
		return nil, planCurrent()
	}
	opened, err := p.changeLater(c, provider, paid, changeTo(order))
	kind := fault.KindOf(err) // of the Idempotency-Key of the order that was paid, or of an API key that may only start payments
	if !pending && (err == nil && !opened.Replayed || kind == fault.IdempotencyMismatch || kind == fault.KeyScope) {
		return nil, planCurrent()
	}
	return opened, err
}

// changeLater has a subscription go on with another plan, or end, once its period has ended. A key with the scope of checkouts can't:
// it may start payments, and no more.
func (p *Purchases) changeLater(c *endpoint.Call, provider payments.Provider, paid *payments.Subscription, to payments.PlanChange) (*Opened, error) {
	if err := p.CheckHolder(c); err != nil {
		return nil, err
	}
	changed, err := provider.Change(p.ctx, paid.ID, to)
	switch {
	case errors.Is(err, payments.ErrNotFound):
		return nil, noSubscription()
	case errors.Is(err, payments.ErrUnavailable):
		return nil, fault.New(fault.OutcomeUnknown, "The payment provider did not answer. The plan may change all the same: look at it, or try again.").Because(err)
	case err != nil:
		return nil, p.unchanged(paid.ID, err)
	}
	p.syncSoon(paid.ID)
	out := &Opened{URL: p.URL(PlanPath), Replayed: changed.Replayed}
	if s := changed.Subscription; s.CancelAtPeriodEnd || s.NextPlan != "" {
		out.EffectiveMs = s.CurrentPeriodEnd.UnixMilli()
	}
	return out, nil
}

// unchanged is the error for a subscription that the provider can't read or change.
func (p *Purchases) unchanged(id string, err error) error {
	if errors.Is(err, payments.ErrMismatch) || errors.Is(err, payments.ErrForeign) {
		p.metrics.mismatches.Inc()
		p.log.Error("a subscription can't be changed: look at it in the provider's dashboard", "id", id, "cause", err)
		return p.notConfigured()
	}
	return p.refused(err)
}

func noSubscription() error {
	return fault.New(fault.NotFound, "The account has no subscription any more.")
}

// syncSoon records what has become of a subscription. If that fails, its webhook does it.
func (p *Purchases) syncSoon(id string) {
	if err := p.Sync(p.ctx, payments.Ref{Kind: payments.KindSubscription, ID: id}); err != nil {
		p.log.Warn("a changed subscription will be looked at again", "id", id, "cause", err)
	}
}
