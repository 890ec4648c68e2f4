package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/payments/stripe/stripetest"
)

// orders an order that needs no payment, and returns when it takes effect: nil if the plan stays.
func (p *person) orders(t *testing.T, order object) any {
	t.Helper()
	got := p.do(t, "POST", checkoutPath, order).ok(t, http.StatusOK)
	if url := text(t, got, "url"); !strings.HasSuffix(url, "/console/plan") {
		t.Errorf("%v leads to %s", order, url)
	}
	return got["effectiveAt"]
}

// goesOnWith waits until the account's subscription has a status, and a next plan: nil if the plan stays.
func (p *person) goesOnWith(t *testing.T, status string, next any) {
	t.Helper()
	eventually.NoError(t, "the subscription", func() error {
		if got, _ := p.plan(t)["subscription"].(object); got["status"] != status || got["nextPlan"] != next {
			return fmt.Errorf("%v, want %s, then %v", got, status, next)
		}
		return nil
	})
}

// living is the only subscription of an account that has not ended.
func (p *person) living(t *testing.T, s *stripetest.Server) string {
	t.Helper()
	customer := s.Customers("quire_account", text(t, p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK), "account", "id"))[0]
	eventually.True(t, "one subscription is left", func() bool { return len(s.Living(customer)) == 1 })
	return s.Living(customer)[0]
}

// TestACheaperPlanBeginsWithTheNextPeriod: unless asked otherwise; until then it can be taken back, and nothing is charged.
func TestACheaperPlanBeginsWithTheNextPeriod(t *testing.T) {
	t.Parallel()
	i, s := shop(t)
	i.withFees(t)
	s.SetEndpoint(i.edge() + webhookPath)
	p, a := i.owner(t)
	a.setTier(t, "free")
	p.do(t, "POST", checkoutPath, object{"plan": "pro", "when": "periodEnd"}).failsAt(t, "when") // nothing is paid yet
	p.buy(t, s, object{"plan": "max"})
	p.isOn(t, "max")
	end := at(t, p.plan(t), "subscription", "periodEndsAt")

	paying, _ := p.further(t, object{"scopes": []string{"payments.checkout"}})
	i.do(t, "POST", checkoutPath, request{key: paying, body: object{"plan": "pro"}}).fails(t, http.StatusForbidden, "key_scope", "")
	p.goesOnWith(t, "active", nil)

	if got := a.do(t, "POST", checkoutPath, object{"plan": "pro"}).ok(t, http.StatusOK)["effectiveAt"]; got != end {
		t.Errorf("pro begins at %v, and the period ends at %v", got, end)
	}
	p.goesOnWith(t, "active", "pro")
	p.isOn(t, "max")
	if got := p.orders(t, object{"plan": "max"}); got != nil {
		t.Errorf("max stays, and changes at %v", got)
	}
	p.goesOnWith(t, "active", nil)
	p.do(t, "POST", checkoutPath, object{"plan": "max"}).fails(t, http.StatusConflict, "plan_current", "")
	if got := p.orders(t, object{"plan": "free"}); got != end {
		t.Errorf("the plan ends at %v, and the period at %v", got, end)
	}
	p.goesOnWith(t, "canceled", nil)
	p.do(t, "POST", checkoutPath, object{"plan": "free", "when": "now"}).failsAt(t, "when")
	p.orders(t, object{"plan": "pro"}) // takes the cancellation back
	p.goesOnWith(t, "active", "pro")
	if n := len(s.Payments()); n != 1 {
		t.Errorf("%d payments before the period's end", n)
	}

	s.SetEndpoint("") // the webhook of the renewal is lost
	if err := s.Renew(p.living(t, s)); err != nil {
		t.Fatal(err)
	}
	i.restart(t)
	s.SetEndpoint(i.edge() + webhookPath)
	p.isOn(t, "pro")
	p.goesOnWith(t, "active", nil)
	eventually.True(t, "the fee is recorded", func() bool { return len(p.payments(t)) == 2 })
	if fee := p.payments(t)[0]; fee["plan"] != "pro" || fee["amountUsd"] != "9.00" {
		t.Errorf("the fee is %v", fee)
	}

	p.orders(t, object{"plan": "max", "when": "periodEnd"}) // a larger one may wait, too
	p.goesOnWith(t, "active", "max")
	p.buy(t, s, object{"plan": "max"})
	p.isOn(t, "max")
	p.goesOnWith(t, "active", nil)
	p.living(t, s)
	p.buy(t, s, object{"plan": "pro", "when": "now"})
	p.isOn(t, "pro")
	p.living(t, s)
}
