package purchases

import (
	"cmp"
	"slices"
	"strings"

	"quire.dev/pkg/event"
)

// order is that of billing: by creation, and the same on all edges. The last one counts.
func order(a, b *event.SetSubscription) int {
	return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Id, b.Id))
}

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
	return a.Tier == b.Tier && a.Active == b.Active && a.PastDue == b.PastDue && a.Cancels == b.Cancels && a.PeriodEndMs == b.PeriodEndMs
}

// with returns the active subscriptions once s is as it is now.
func with(known []*event.SetSubscription, s *event.SetSubscription) []*event.SetSubscription {
	out := slices.DeleteFunc(slices.Clone(known), func(k *event.SetSubscription) bool { return isOf(k, s) })
	if s.Active {
		out = append(out, s)
	}
	slices.SortFunc(out, order)
	return out
}
