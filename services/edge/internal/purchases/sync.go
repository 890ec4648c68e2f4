package purchases

import (
	"context"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/payments"
	"quire.dev/services/edge/internal/prices"
)

// Sync brings an account in line with what the provider says about a payment or a subscription. It can be repeated, in any order and
// on several edges: the journal takes a payment once, and of two states of an object the later one. What is not this installation's
// changes nothing. An error means that it has to be done again.
func (p *Purchases) Sync(ctx context.Context, ref payments.Ref) error {
	provider, err := p.provider(ctx)
	if err != nil {
		return err
	}
	switch ref.Kind {
	case payments.KindPayment:
		err = p.syncPayment(ctx, provider, ref.ID)
	case payments.KindSubscription:
		err = p.syncSubscription(ctx, provider, ref.ID)
	}
	switch {
	case errors.Is(err, payments.ErrNotFound), errors.Is(err, payments.ErrForeign):
		return nil
	case errors.Is(err, payments.ErrMismatch), errors.Is(err, errNoAccount):
		p.metrics.mismatches.Inc()
		p.log.Error("a payment or a subscription can't be recorded: look at it in the provider's dashboard", "kind", ref.Kind, "id", ref.ID, "cause", err)
		return nil
	}
	return err
}

// errNoAccount: the account is erased, or of another installation with the same id.
var errNoAccount = errors.New("no such account")

func (p *Purchases) syncPayment(ctx context.Context, provider payments.Provider, id string) error {
	asOf := p.Now().UnixMilli() // the state is at least as new
	paid, err := provider.Payment(ctx, id)
	if err != nil || paid.State != payments.Paid {
		return err
	}
	return p.record(ctx, provider.Name(), paid, asOf, 0)
}

// record records a payment and what of it was taken back. topUp is the id of the top-up that it carries out, 0 if unknown or none.
func (p *Purchases) record(ctx context.Context, provider string, paid payments.Payment, asOf int64, topUp uint64) error {
	account, err := event.ParseAccountID(paid.Account)
	if err != nil {
		return fmt.Errorf("%w: %w", payments.ErrMismatch, err)
	}
	a, err := p.bus.Query(ctx, account, &event.Query{Query: &event.Query_Payments{Payments: &event.PaymentsQuery{Provider: provider, Id: paid.ID, Limit: 1}}})
	switch {
	case err != nil:
		return err
	case a.Status == event.QueryStatus_QUERY_NOT_FOUND:
		return errNoAccount
	}
	var known *event.PaymentState
	if list := a.GetPayments().GetPayments(); len(list) > 0 {
		known = list[0]
	}
	if known == nil || topUp != 0 {
		if err := p.command(ctx, account, &event.Command{Action: &event.Command_Payment{Payment: &event.Payment{
			Provider: provider, Id: paid.ID, CreditsMicros: num.Uint64(paid.CreditsMicros), Plan: paid.Plan,
			AmountCents: num.Uint64(paid.AmountMinor), TaxCents: num.Uint64(paid.TaxMinor), TopUp: topUp,
		}}}); err != nil {
			return err
		}
	}
	reversed, cents := num.Uint64(paid.CreditsMicros-paid.KeptCreditsMicros()), num.Uint64(paid.AmountMinor-paid.KeptMinor())
	if reversed == known.GetReversedMicros() && cents == known.GetReversedCents() {
		return nil
	}
	return p.command(ctx, account, &event.Command{Action: &event.Command_Reverse{Reverse: &event.Reverse{
		Provider: provider, Id: paid.ID, ReversedMicros: reversed, ReversedCents: cents, AsOfMs: asOf,
		Reason: reasonOf(paid, cents < known.GetReversedCents()), Chargeback: paid.DisputedMinor > 0,
	}}})
}

// reasonOf says why credits of a payment are taken back, or given back again.
func reasonOf(paid payments.Payment, back bool) string {
	switch {
	case back:
		return "refund or dispute withdrawn"
	case paid.DisputedMinor > 0:
		return "payment disputed"
	}
	return "payment refunded"
}

func (p *Purchases) syncSubscription(ctx context.Context, provider payments.Provider, id string) error {
	asOf := p.Now().UnixMilli()
	s, err := provider.Subscription(ctx, id)
	if err != nil {
		return err
	}
	account, err := event.ParseAccountID(s.Account)
	if err != nil {
		return fmt.Errorf("%w: %w", payments.ErrMismatch, err)
	}
	a, err := p.bus.Query(ctx, account, &event.Query{Query: &event.Query_Plan{Plan: &event.PlanQuery{}}})
	if err != nil {
		return err
	}
	now := a.GetPlan()
	switch {
	case now == nil && s.Ended:
		return nil
	case now == nil:
		return errNoAccount
	}
	if now.DeletesMs != 0 && s.Active && !s.CancelAtPeriodEnd { // begun on a page that was open before
		if err := provider.Cancel(ctx, id, true); err != nil {
			return err
		}
		s.CancelAtPeriodEnd = true
	}
	next, err := p.stateOf(provider, s, asOf)
	if err != nil {
		return err
	}
	known := find(now.GetSubscriptions(), next)
	if known == nil && !s.Active || known != nil && same(known, next) {
		return p.cancelOthers(ctx, provider, now.GetSubscriptions())
	}
	if err := p.command(ctx, account, &event.Command{Action: &event.Command_SetSubscription{SetSubscription: next}}); err != nil {
		return err
	}
	return p.cancelOthers(ctx, provider, with(now.GetSubscriptions(), next))
}

// stateOf is a subscription as an event.
func (p *Purchases) stateOf(provider payments.Provider, s payments.Subscription, asOf int64) (*event.SetSubscription, error) {
	list, err := p.Books()
	if list == nil {
		return nil, err
	}
	tiers := prices.Tiers(list)
	tier, found := tiers[s.Plan]
	if !found {
		return nil, fmt.Errorf("%w: no price book has the plan %q", payments.ErrMismatch, s.Plan)
	}
	return &event.SetSubscription{
		Provider: provider.Name(), Id: s.ID, Tier: uint32(tier), Active: s.Active, PastDue: s.PastDue, Cancels: s.CancelAtPeriodEnd,
		CreatedMs: s.Created.UnixMilli(), PeriodEndMs: s.CurrentPeriodEnd.UnixMilli(), AsOfMs: asOf, NextTier: uint32(tiers[s.NextPlan]), FeeCents: num.Uint64(s.FeeMinor),
	}, nil
}

// cancelOthers cancels all subscriptions but the newest active one, which determines the account's plan. An account holder makes a
// second one by changing the plan, or in a second tab.
func (p *Purchases) cancelOthers(ctx context.Context, provider payments.Provider, active []*event.SetSubscription) error {
	for i, s := range active {
		if i == len(active)-1 || s.Provider != provider.Name() {
			continue
		}
		if err := provider.Cancel(ctx, s.Id, false); err != nil && !errors.Is(err, payments.ErrNotFound) {
			return fmt.Errorf("cancel the subscription %s, which a newer one replaces: %w", s.Id, err)
		}
		// The webhook about it may be lost, and until the next comparison the account's plan would depend on a subscription that has ended.
		if err := p.syncSubscription(ctx, provider, s.Id); err != nil && !errors.Is(err, payments.ErrNotFound) && !errors.Is(err, payments.ErrMismatch) {
			return err
		}
	}
	return nil
}

// command sends a command of the provider's to billing.
func (p *Purchases) command(ctx context.Context, account event.AccountID, c *event.Command) error {
	c.Account = uint64(account)
	o, err := p.bus.Command(ctx, c)
	if err != nil {
		return err
	}
	switch o.Status {
	case event.CommandStatus_COMMAND_OK:
		return nil
	case event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND:
		return errNoAccount
	case event.CommandStatus_COMMAND_PAYMENT_MISMATCH:
		return fmt.Errorf("%w: it is recorded with another amount", payments.ErrMismatch)
	}
	// Another try would have the same answer, at least until somebody has done something about it.
	return fmt.Errorf("%w: billing refused a command about account %s: %s", payments.ErrMismatch, account, o.Status)
}
