package plan_test

import (
	"testing"

	"quire.dev/pkg/plan"
)

func TestNamesRoundTrip(t *testing.T) {
	names := map[string]plan.QuotaKey{}
	for _, k := range plan.QuotaKeys() {
		if other, twice := names[k.String()]; twice {
			t.Errorf("%d and %d are both %s", k, other, k)
		}
		names[k.String()] = k
	}
	for _, tier := range plan.Tiers() {
		if back, ok := plan.ParseTier(tier.String()); !ok || back != tier {
			t.Errorf("%s read as %s", tier, back)
		}
	}
	for _, bad := range []string{"", "Free", "tier(0)"} {
		if _, ok := plan.ParseTier(bad); ok {
			t.Errorf("%q is taken for a tier", bad)
		}
	}
}

func TestPublishedBookHasEveryTerm(t *testing.T) {
	book := plan.Published(10)
	for _, k := range plan.QuotaKeys() {
		free, pro, max, admin := book.Terms[plan.Free][k], book.Terms[plan.Pro][k], book.Terms[plan.Max][k], book.Terms[plan.Admin][k]
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
