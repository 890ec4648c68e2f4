package stripe

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

// to is a change to a plan for $5.
func to(plan, key string) payments.PlanChange {
	return payments.PlanChange{Plan: plan, AmountMinor: 500, Description: "Quire " + plan, Key: key}
}

// subscribed returns a new subscription of Pro for $12, and the payment of its first fee.
func subscribed(t *testing.T, s *stripetest.Server, p *Provider) (id, fee string) {
	t.Helper()
	fee = must1(s.Pay(checkout(t, p, pro("17", "order-1")), stripetest.Good))(t)
	return s.Subscriptions(s.Customers(metaAccount, "17")[0])[0], fee
}

// wantPlans asserts a subscription's plan, the next one, and the next fee.
func wantPlans(t *testing.T, s *stripetest.Server, p *Provider, id, plan, next string, fee int64) {
	t.Helper()
	if got := subscription(t, p, id); got.Plan != plan || got.NextPlan != next || got.CancelAtPeriodEnd || s.Fee(id) != fee {
		t.Errorf("subscription %+v, next fee %d, want %s, then %q, for %d", got, s.Fee(id), plan, next, fee)
	}
}

func TestAPlanChangesAtThePeriodsEnd(t *testing.T) {
	s, p := start(t, stripetest.Config{TaxPercent: 10})
	id, first := subscribed(t, s, p)
	end := subscription(t, p, id).CurrentPeriodEnd
	must(t, p.Cancel(t.Context(), id, true))
	for range 2 {
		must(t, p.Change(t.Context(), id, to("Small", "change-1"))) // takes the cancellation back
		wantPlans(t, s, p, id, "Pro", "Small", 500)
	}
	must(t, p.Change(t.Context(), id, to("Tiny", "change-2")))
	wantPlans(t, s, p, id, "Pro", "Tiny", 500)
	if n := len(s.Payments()); n != 1 {
		t.Errorf("%d payments before the period's end", n)
	}
	if got := payment(t, p, first); got.Plan != "Pro" || got.AmountMinor != 1200 {
		t.Errorf("the fee of the first period is %+v", got)
	}

	must(t, s.Renew(id))
	wantPlans(t, s, p, id, "Tiny", "", 500)
	got := subscription(t, p, id)
	if !got.CurrentPeriodEnd.After(end) {
		t.Errorf("the period ends at %v, as before", got.CurrentPeriodEnd)
	}
	if fee := payment(t, p, got.LatestPayment); fee.Plan != "Tiny" || fee.AmountMinor != 500 || fee.Subscription != id {
		t.Errorf("the fee of the second period is %+v", fee)
	}
	if got := payment(t, p, first); got.Plan != "Pro" {
		t.Errorf("the fee of the first period is now %+v", got)
	}

	must(t, p.Change(t.Context(), id, to("Pro", "change-3"))) // up again
	wantPlans(t, s, p, id, "Tiny", "Pro", 500)
	must(t, s.Renew(id))
	must(t, s.Renew(id))
	wantPlans(t, s, p, id, "Pro", "", 500)
}

func TestAChangeIsTakenBackAtTheOldFee(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	keep := to("Pro", "keep-1")
	must(t, p.Change(t.Context(), id, keep)) // there is nothing to take back
	must(t, p.Change(t.Context(), id, to("Small", "change-1")))
	must(t, p.Change(t.Context(), id, keep))
	wantPlans(t, s, p, id, "Pro", "", 1200)
	must(t, s.Renew(id))
	wantPlans(t, s, p, id, "Pro", "", 1200)
}

func TestACancellationIsTakenBack(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	must(t, p.Cancel(t.Context(), id, true))
	must(t, p.Change(t.Context(), id, to("Pro", "keep-1")))
	wantPlans(t, s, p, id, "Pro", "", 1200)
}

// TestARetriedChangeHasNoFurtherEffect: under its key, also after another change.
func TestARetriedChangeHasNoFurtherEffect(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	must(t, p.Change(t.Context(), id, to("Small", "change-1")))
	must(t, p.Change(t.Context(), id, to("Pro", "change-2")))
	must(t, p.Change(t.Context(), id, to("Small", "change-1")))
	wantPlans(t, s, p, id, "Pro", "", 1200)
	wantError(t, p.Change(t.Context(), id, to("Tiny", "change-1")), payments.ErrKeyReused)
	wantPlans(t, s, p, id, "Pro", "", 1200)
}

// TestAnImmediateCancellationCreditsWhatWasPaid, and not what the next plan would cost.
func TestAnImmediateCancellationCreditsWhatWasPaid(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	must(t, p.Change(t.Context(), id, to("Small", "change-1")))
	must(t, p.Cancel(t.Context(), id, false))
	if got := s.Fee(id); got != 1200 {
		t.Errorf("the rest is credited at a price of %d", got)
	}
	if got := subscription(t, p, id); !got.Ended {
		t.Errorf("%+v", got)
	}
}

// TestAChangeAtTheInstantOfARenewal belongs to the end of the period that was just paid.
func TestAChangeAtTheInstantOfARenewal(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	var renew sync.Once
	back := httputil.NewSingleHostReverseProxy(must1(url.Parse(s.URL))(t))
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/subscriptions/"+id {
			renew.Do(func() { must(t, s.Renew(id)) })
		}
		back.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	p = connect(t, s, func(c *Config) { c.URL = front.URL })
	must(t, p.Change(t.Context(), id, to("Small", "change-1")))
	wantPlans(t, s, p, id, "Pro", "Small", 500)
	must(t, s.Renew(id))
	wantPlans(t, s, p, id, "Small", "", 500)
}

func TestAnOutcomeThatIsUnknownIsTriedAgain(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	id, _ := subscribed(t, s, p)
	for i, fault := range []stripetest.Fault{stripetest.Cut, stripetest.Busy, stripetest.Lose} {
		for _, path := range []string{"/v1/products", "/v1/subscriptions/" + id} {
			plan := []string{"Small", "Tiny", "Less"}[i]
			s.Break("POST", path, fault)
			change := to(plan, "change-"+plan+path[len(path)-1:])
			wantError(t, p.Change(t.Context(), id, change), payments.ErrUnavailable)
			must(t, p.Change(t.Context(), id, change))
			wantPlans(t, s, p, id, "Pro", plan, 500)
		}
	}
}

func TestChangesThatCannotBe(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	other := connect(t, s, func(c *Config) { c.Installation = "staging" })
	wantError(t, other.Change(t.Context(), id, to("Small", "k")), payments.ErrForeign)
	for _, change := range []func(*payments.PlanChange){
		func(c *payments.PlanChange) { c.Plan = "" }, func(c *payments.PlanChange) { c.Plan = strings.Repeat("p", 501) }, func(c *payments.PlanChange) { c.AmountMinor = 0 },
		func(c *payments.PlanChange) { c.Description = "" }, func(c *payments.PlanChange) { c.Key = "" }, func(c *payments.PlanChange) { c.Key = strings.Repeat("k", 101) },
	} {
		invalid := to("Small", "k")
		change(&invalid)
		wantError(t, p.Change(t.Context(), id, invalid), payments.ErrInvalid)
	}
	for _, none := range []string{"sub_none", "pi_1", "../charges"} {
		wantError(t, p.Change(t.Context(), none, to("Small", "k")), payments.ErrNotFound)
	}
	wantPlans(t, s, p, id, "Pro", "", 1200)
	must(t, s.SetSubscriptionMetadata(id, metaNextPlan, "Small")) // by hand, in the dashboard
	_, err := p.Subscription(t.Context(), id)
	wantError(t, err, payments.ErrMismatch, metaNextFrom)
	must(t, s.SetSubscriptionMetadata(id, metaNextPlan, ""))
	must(t, s.CancelNow(id))
	wantError(t, p.Change(t.Context(), id, to("Small", "k")), payments.ErrNotFound)
}

// TestTheNextPlanBeginsWithItsPeriod, to the second.
func TestTheNextPlanBeginsWithItsPeriod(t *testing.T) {
	s := sale{plan: "Pro", amount: 1200, next: planFee{"Small", 500}, nextFrom: 1000}
	if got := s.at(999); got != s {
		t.Errorf("before: %+v", got)
	}
	if got, want := s.at(1000), (sale{plan: "Small", amount: 500}); got != want {
		t.Errorf("from then on: %+v", got)
	}
}
