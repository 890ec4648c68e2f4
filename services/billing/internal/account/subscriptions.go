package account

import (
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// A plan that is paid monthly is a subscription at a provider. Its events carry the state there, as of a time, so that their order
// and repetition do not matter. The account is on the plan of its newest active one
// (docs/adr/0025-plans-and-top-ups-are-decided-by-the-fold.md).

// maxEnded bounds the ended subscriptions that an account keeps. An outdated event of an older one would revive it.
const maxEnded = 20

// subscription is the active one that counts, or nil. The list is in the order of creation.
func subscription(list []*event.SetSubscription) *event.SetSubscription {
	for _, s := range slices.Backward(list) {
		if s.Active {
			return s
		}
	}
	return nil
}

// subscribe executes a command about a subscription. An outdated one changes nothing. If the account can't be on the plan that it
// would get, nothing changes, and the caller tries again later.
func (f *Fold) subscribe(a *account, s *event.SetSubscription) event.CommandStatus {
	if f.rules < Rules4 || !validPurchase(s.GetProvider(), s.GetId()) || s.Active && !f.prices.paidMonthly(plan.Tier(s.Tier)) || s.NextTier >= uint32(plan.MaxTiers) {
		return event.CommandStatus_COMMAND_INVALID
	}
	asOf := min(s.AsOfMs, f.time) // a clock that is ahead must not outdate later states
	i := slices.IndexFunc(a.subscriptions, func(known *event.SetSubscription) bool { return known.Id == s.Id && known.Provider == s.Provider })
	if i >= 0 && asOf < a.subscriptions[i].AsOfMs {
		return event.CommandStatus_COMMAND_OK
	}
	list := slices.Clone(a.subscriptions)
	if i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	list = append(list, subscriptionAt(s, asOf))
	slices.SortFunc(list, event.CompareSubscriptions)
	before, now := subscription(a.subscriptions), subscription(list)
	var tier plan.Tier
	switch {
	case now != nil && (before == nil || now.Tier != before.Tier || now.Id != before.Id || now.Provider != before.Provider):
		tier = plan.Tier(now.Tier)
	case now == nil && before != nil && a.tier == plan.Tier(before.Tier):
		tier = plan.Free
	default: // the same one counts, or none
		a.subscriptions = forgetEnded(list)
		return event.CommandStatus_COMMAND_OK
	}
	if !f.setTier(a, tier) {
		return event.CommandStatus_COMMAND_INVALID
	}
	a.subscriptions = forgetEnded(list)
	return event.CommandStatus_COMMAND_OK
}

// subscriptionAt is a state as of a time, without fields that this program doesn't know.
func subscriptionAt(s *event.SetSubscription, asOf int64) *event.SetSubscription {
	return &event.SetSubscription{
		Provider: s.Provider, Id: s.Id, Tier: s.Tier, Active: s.Active, PastDue: s.PastDue, Cancels: s.Cancels,
		CreatedMs: s.CreatedMs, PeriodEndMs: s.PeriodEndMs, AsOfMs: asOf, NextTier: s.NextTier, FeeCents: s.FeeCents,
	}
}

// paidMonthly reports whether a tier may have a subscription.
func (l *prices) paidMonthly(tier plan.Tier) bool {
	return tier != plan.Free && tier != plan.Admin && l.hasPlan(tier)
}

// forgetEnded drops the oldest of too many ended subscriptions.
func forgetEnded(list []*event.SetSubscription) []*event.SetSubscription {
	ended := 0
	for _, s := range list {
		if !s.Active {
			ended++
		}
	}
	return slices.DeleteFunc(list, func(s *event.SetSubscription) bool {
		if s.Active || ended <= maxEnded {
			return false
		}
		ended--
		return true
	})
}

// setTier changes the tier, from now on. It returns false for an unknown tier, and after too many changes in the month.
func (f *Fold) setTier(a *account, tier plan.Tier) bool {
	if !f.prices.hasPlan(tier) || a.tier != tier && len(a.current.ended()) >= maxPeriods {
		return false
	}
	if a.tier != tier {
		a.endPeriod(f.time, a.terms == f.sequence)
		f.credits.newTerms(a, f.sequence)
	}
	a.tier, a.nextTier = tier, 0
	return true
}

// PlanAt is the account's plan, and what pays for it, as of now or the fold's time, whichever is later; nil without such an account.
// What it points to must not be changed.
func (r *reader) PlanAt(id event.AccountID, now int64) *event.PlanAnswer {
	a, _ := r.forward(id, now)
	if a == nil {
		return nil
	}
	answer := &event.PlanAnswer{
		Tier: uint32(a.tier), Plan: r.prices.given(a.tier), NextTier: uint32(a.nextTier), NextPlan: r.prices.given(a.nextTier),
		BalanceMicros: a.available - a.owed, DeletesMs: a.deletes, Payments: uint64(len(a.purchases.list)),
		TopUp: copyTopUp(a.topUp),
	}
	for _, s := range a.subscriptions {
		if s.Active {
			answer.Subscriptions = append(answer.Subscriptions, s)
		}
	}
	if t := answer.TopUp; t != nil && t.Month < a.month {
		t.Month, t.SpentMicros = a.month, 0
	}
	return answer
}
