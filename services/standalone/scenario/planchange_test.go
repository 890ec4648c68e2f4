package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

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

// customer is the account's at the provider.
func (p *person) customer(t *testing.T, s *stripetest.Server) string {
	t.Helper()
	return s.Customers("quire_account", text(t, p.do(t, "GET", "/api/users/user", nil).ok(t, http.StatusOK), "account", "id"))[0]
}

// living is the only subscription of an account that has not ended.
func (p *person) living(t *testing.T, s *stripetest.Server) string {
	t.Helper()
	customer := p.customer(t, s)
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

	// By what is paid, not by what a new subscription would cost.
	document := i.document(t)
	planOf(t, document, "pro")["monthlyFee"], planOf(t, document, "max")["monthlyFee"] = "19.00", "15.00"
	effective := i.now().Add(2 * time.Minute).Truncate(time.Second)
	i.admin(t, "POST", "/api/admin/prices", object{"book": document, "effectiveAt": effective.Format(time.RFC3339)}).ok(t, http.StatusOK)
	i.travel(t, 3*time.Minute)
	eventually.True(t, "the book is in force", func() bool { return p.plan(t)["monthlyFee"] == "19.00" })
	if fee := at(t, p.plan(t), "subscription", "monthlyFee"); fee != "9.00" {
		t.Errorf("the subscription costs %v", fee)
	}
	if page := text(t, p.do(t, "POST", checkoutPath, object{"plan": "max"}).ok(t, http.StatusOK), "url"); strings.HasSuffix(page, "/console/plan") {
		t.Error("a plan that costs more than what is paid is not paid")
	}
	p.orders(t, object{"plan": "max", "when": "periodEnd"})
	customer := p.customer(t, s)
	p.deleteAccount(t)
	if living := s.Living(customer); len(living) != 1 || !s.Ending(living[0]) {
		t.Error("after the deletion the subscription goes on")
	}
}

// TestAPlanOrderIsRetried: under its Idempotency-Key, late ones too.
func TestAPlanOrderIsRetried(t *testing.T) {
	t.Parallel()
	i, s := shop(t)
	i.withFees(t)
	s.SetEndpoint(i.edge() + webhookPath)
	p := i.person(t)
	send := func(key string, order object) answer {
		return i.do(t, "POST", checkoutPath, request{body: order, cookies: p.cookies, header: map[string]string{"Sec-Fetch-Site": "same-origin", "Idempotency-Key": key + p.email}})
	}
	replayed := func(key string, order object, want bool) any {
		t.Helper()
		a := send(key, order)
		got := a.ok(t, http.StatusOK)["effectiveAt"]
		if (a.header.Get("Idempotency-Replayed") == "true") != want {
			t.Errorf("%s %v: replayed is %q", key, order, a.header.Get("Idempotency-Replayed"))
		}
		return got
	}
	smaller, none, keep := object{"plan": "pro"}, object{"plan": "free"}, object{"plan": "max"}
	if _, err := s.Pay(text(t, send("paid", keep).ok(t, http.StatusOK), "url"), stripetest.Good); err != nil {
		t.Fatal(err)
	}
	p.isOn(t, "max")
	for _, key := range []string{"paid", "0"} {
		send(key, keep).fails(t, http.StatusConflict, "plan_current", "")
	}
	first := replayed("1", smaller, false)
	if again := replayed("1", smaller, true); again != first || first == nil {
		t.Errorf("pro begins at %v, says the retry, and before it was %v", again, first)
	}
	replayed("2", keep, false)
	if again := replayed("2", keep, true); again != nil {
		t.Errorf("max ends at %v, says the retry", again)
	}
	replayed("3", none, false)
	p.goesOnWith(t, "canceled", nil)
	replayed("4", keep, false)
	replayed("3", none, true)
	replayed("1", smaller, true)
	p.goesOnWith(t, "active", nil)
	for _, other := range []object{none, {"credits": "5"}, {"plan": "pro", "when": "now"}} {
		send("1", other).fails(t, http.StatusUnprocessableEntity, "idempotency_mismatch", "")
	}

	// An answer of the provider's that is lost, as the retry finds out.
	s.Break("POST", "/v1/subscriptions/"+p.living(t, s), stripetest.Fail)
	send("5", smaller).fails(t, http.StatusGatewayTimeout, "outcome_unknown", "")
	replayed("6", smaller, false)
	p.goesOnWith(t, "active", "pro")

	// Somebody has edited it in the dashboard.
	if err := s.SetSubscriptionMetadata(p.living(t, s), "quire_amount", "many"); err != nil {
		t.Fatal(err)
	}
	send("7", keep).fails(t, http.StatusConflict, "payments_not_configured", "")
}

// TestAPlanThatIsPastDueIsReplacedAtOnce: there is no paid period to wait for.
func TestAPlanThatIsPastDueIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	i, s := shop(t)
	i.withFees(t)
	s.SetEndpoint(i.edge() + webhookPath)
	p := i.person(t)
	p.buy(t, s, object{"plan": "max"})
	p.isOn(t, "max")
	if err := s.SaveCard(p.customer(t, s), stripetest.Declining); err != nil {
		t.Fatal(err)
	}
	if err := s.Renew(p.living(t, s)); err != nil {
		t.Fatal(err)
	}
	p.goesOnWith(t, "past_due", nil)
	p.buy(t, s, object{"plan": "pro"})
	p.isOn(t, "pro")
	p.living(t, s)
}

// TestAPlanOfTheOperatorsLeavesTheSubscription, which is what orders change.
func TestAPlanOfTheOperatorsLeavesTheSubscription(t *testing.T) {
	t.Parallel()
	i, s := shop(t)
	i.withFees(t)
	s.SetEndpoint(i.edge() + webhookPath)
	p, a := i.owner(t)
	p.buy(t, s, object{"plan": "max"})
	p.isOn(t, "max")
	a.setTier(t, "pro")
	if p.orders(t, object{"plan": "pro"}) == nil {
		t.Error("the next fee is still that of max")
	}
	a.setTier(t, "free")
	if p.orders(t, object{"plan": "free"}) == nil {
		t.Error("fees go on")
	}
	p.goesOnWith(t, "canceled", nil)
}
