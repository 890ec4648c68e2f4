package purchases

import (
	"errors"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/payments"
	"quire.dev/services/edge/internal/fault"
)

func isOf(a, b *event.SetSubscription) bool { return a.Id == b.Id && a.Provider == b.Provider }

// find returns what is known of a subscription, nil if nothing is.
func find(known []*event.SetSubscription, s *event.SetSubscription) *event.SetSubscription {
	for _, k := range known {
		if isOf(k, s) {
			return k
		}
	}
	return nil
}

// same reports whether two states of a subscription differ in their age at most.
func same(a, b *event.SetSubscription) bool {
	return a.Tier == b.Tier && a.Active == b.Active && a.PastDue == b.PastDue && a.Cancels == b.Cancels && a.NextTier == b.NextTier && a.FeeCents == b.FeeCents && a.PeriodEndMs == b.PeriodEndMs
}

// with returns the active subscriptions once s is as it is now.
func with(known []*event.SetSubscription, s *event.SetSubscription) []*event.SetSubscription {
	out := slices.DeleteFunc(slices.Clone(known), func(k *event.SetSubscription) bool { return isOf(k, s) })
	if s.Active {
		out = append(out, s)
	}
	slices.SortFunc(out, event.CompareSubscriptions)
	return out
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
		return noSubscription()
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
		p.syncSoon(s.Id)
	}
	return nil
}
