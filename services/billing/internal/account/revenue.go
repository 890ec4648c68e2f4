package account

import (
	"cmp"
	"maps"
	"slices"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// maxFailedCharges bounds a RevenueQuery's failures.
const maxFailedCharges = 1000

// Revenue adds up what accounts have paid, and what is still owed on either side, as of the fold's time. It looks at every account.
func (r *reader) Revenue(q *event.RevenueQuery) *event.RevenueAnswer {
	answer := &event.RevenueAnswer{}
	months := map[uint32]*event.MonthRevenue{}
	for _, a := range r.principals.accounts { // sums, and failures that are sorted below
		a.purchases.addTo(months, q.GetFromMs())
		if a.erased != 0 {
			continue
		}
		if a.available > 0 {
			answer.OutstandingMicros += uint64(a.available)
			answer.OutstandingAccounts++
		}
		if a.owed > 0 {
			answer.OwedMicros += uint64(a.owed)
			answer.OwingAccounts++
		}
		if s := subscription(a.subscriptions); s != nil {
			answer.Subscriptions++
			if s.PastDue {
				answer.PastDue++
				answer.Failures = append(answer.Failures, &event.FailedCharge{Account: a.id, Tier: s.Tier, Plan: r.prices.given(plan.Tier(s.Tier))})
			}
		}
		if t := a.topUp; t != nil && t.Failures > 0 {
			answer.FailingTopUps++
			answer.Failures = append(answer.Failures, &event.FailedCharge{Account: a.id, Reason: t.Reason, Off: t.Off})
		}
	}
	for _, number := range slices.Sorted(maps.Keys(months)) {
		answer.Months = append(answer.Months, months[number])
	}
	slices.SortFunc(answer.Failures, func(a, b *event.FailedCharge) int {
		return cmp.Or(cmp.Compare(a.Account, b.Account), cmp.Compare(a.Tier, b.Tier))
	})
	answer.Failures = answer.Failures[:min(len(answer.Failures), int(q.GetFailures()), maxFailedCharges)]
	return answer
}

// addTo adds the payments from a time on to their months.
func (p *purchases) addTo(months map[uint32]*event.MonthRevenue, from int64) {
	var m month
	for _, one := range p.list {
		if one.time < from {
			continue
		}
		m = m.at(one.time)
		to := months[m.number]
		if to == nil {
			to = &event.MonthRevenue{Period: m.period()}
			months[m.number] = to
		}
		to.Payments++
		to.AmountCents += one.amount
		to.TaxCents += one.tax
		to.ReversedCents += one.reversedCents
		to.CreditsMicros += one.credits
	}
}
