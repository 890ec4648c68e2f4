package event

import (
	"cmp"
	"strings"
)

// CompareSubscriptions is the order of creation at their providers. The last active one is what an account's plan is paid with.
func CompareSubscriptions(a, b *SetSubscription) int {
	return cmp.Or(cmp.Compare(a.CreatedMs, b.CreatedMs), strings.Compare(a.Provider, b.Provider), strings.Compare(a.Id, b.Id))
}
