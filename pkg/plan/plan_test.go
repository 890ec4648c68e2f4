package plan_test

import (
	"testing"

	"quire.dev/pkg/plan"
)

func TestNamesRoundTrip(t *testing.T) {
	names := map[string]plan.QuotaKey{}
	for _, k := range plan.Scopes() {
		if other, twice := names[k.String()]; twice {
			t.Errorf("%d and %d are both %s", k, other, k)
		}
		names[k.String()] = k
	}
	book := plan.Published(10)
	for _, tier := range plan.Tiers() {
		if back, ok := book.Tier(tier.String()); !ok || back != tier {
			t.Errorf("%s read as %s", tier, back)
		}
	}
	for _, bad := range []string{"", "Free", "tier(0)"} {
		if _, ok := book.Tier(bad); ok {
			t.Errorf("%q is taken for a tier", bad)
		}
	}
}

// TestScopesAreMoreThanQuotaKeys: nothing is counted under the scope for payments.
func TestScopesAreMoreThanQuotaKeys(t *testing.T) {
	for _, k := range plan.QuotaKeys() {
		if !k.Valid() || !k.IsScope() {
			t.Errorf("%s is no scope", k)
		}
	}
	if s := plan.ScopeCheckout; s.Valid() || !s.IsScope() || s.String() != "payments.checkout" || s >= 64 {
		t.Errorf("%d is %s", s, s)
	}
	if plan.QuotaKey(62).IsScope() || plan.KeyUnspecified.IsScope() {
		t.Error("what is no scope is one")
	}
}

func TestPublishedBookHasEveryTerm(t *testing.T) {
	book := plan.Published(10)
	for _, k := range plan.QuotaKeys() {
		free, pro, max, admin := book.Plans[plan.Free].Terms[k], book.Plans[plan.Pro].Terms[k], book.Plans[plan.Max].Terms[k], book.Plans[plan.Admin].Terms[k]
		if admin.Limit != plan.Unlimited || admin.Overage || free.Overage {
			t.Errorf("%s: admin %+v, free %+v", k, admin, free)
		}
		if pro.Overage && (pro.Price <= max.Price || max.Price <= 0 || pro.Limit >= max.Limit) {
			t.Errorf("%s: pro %+v, max %+v", k, pro, max)
		}
		if !pro.Overage && pro.Limit != plan.Unlimited {
			t.Errorf("%s: pro %+v is neither sold nor unlimited", k, pro)
		}
	}
}
