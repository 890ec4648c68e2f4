package kind_test

import (
	"testing"

	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/kind"
)

func TestEveryQuotaKeyIsOfOneKind(t *testing.T) {
	count := map[plan.QuotaKey]int{}
	for _, k := range kind.All() {
		for _, key := range []plan.QuotaKey{k.Create, k.Read, k.Update, k.Delete, k.List, k.Versions} {
			count[key]++
		}
		if k.Text != k.Updates || (k.Update == plan.KeyUnspecified) == k.Updates {
			t.Errorf("%s can be updated by their fold: %t, and not by their description", k.Name, k.Updates)
		}
	}
	for _, key := range plan.QuotaKeys() {
		if count[key] != 1 {
			t.Errorf("%s is of %d kinds", key, count[key])
		}
	}
}
