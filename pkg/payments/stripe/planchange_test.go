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

// change changes a subscription, and asserts that the result is its state.
func change(t *testing.T, p *Provider, id string, to payments.PlanChange) payments.Changed {
	t.Helper()
	got := must1(p.Change(t.Context(), id, to))(t)
	want := subscription(t, p, id)
	if want.LatestPayment = ""; !got.Replayed && got.Subscription != want {
		t.Errorf("the change returns %+v, and the subscription is %+v", got.Subscription, want)
	}
	return got
}

func refuses(t *testing.T, p *Provider, id string, to payments.PlanChange, want error) {
	t.Helper()
	_, err := p.Change(t.Context(), id, to)
	wantError(t, err, want)
}

// wantPlans asserts a subscription's plan, the next one, and the next fee.
func wantPlans(t *testing.T, s *stripetest.Server, p *Provider, id, plan, next string, fee int64) {
	t.Helper()
	if got := subscription(t, p, id); got.Plan != plan || got.NextPlan != next || got.CancelAtPeriodEnd || s.Fee(id) != fee {
		t.Errorf("subscription %+v, next fee %d, want %s, then %q, for %d", got, s.Fee(id), plan, next, fee)
	}
}

func TestAPlanChangesAtThePeriodsEnd(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, first := subscribed(t, s, p)
	end := subscription(t, p, id).CurrentPeriodEnd
	must(t, p.Cancel(t.Context(), id, true))
	for range 2 {
		change(t, p, id, to("Small", "change-1")) // takes the cancellation back
		wantPlans(t, s, p, id, "Pro", "Small", 500)
	}
	change(t, p, id, to("Tiny", "change-2"))
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

	change(t, p, id, to("Pro", "change-3")) // up again
	wantPlans(t, s, p, id, "Tiny", "Pro", 500)
	must(t, s.Renew(id))
	must(t, s.Renew(id))
	wantPlans(t, s, p, id, "Pro", "", 500)
}

func TestAChangeIsTakenBackAtTheOldFee(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	change(t, p, id, to("Pro", "keep-1")) // there is nothing to take back
	wantPlans(t, s, p, id, "Pro", "", 1200)
	change(t, p, id, to("Small", "change-1"))
	change(t, p, id, to("Pro", "keep-2"))
	wantPlans(t, s, p, id, "Pro", "", 1200)
	must(t, s.Renew(id))
	wantPlans(t, s, p, id, "Pro", "", 1200)
}

func TestACancellationIsTakenBack(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	must(t, p.Cancel(t.Context(), id, true))
	change(t, p, id, to("Pro", "keep-1"))
	wantPlans(t, s, p, id, "Pro", "", 1200)
}

// TestARetriedChangeHasNoFurtherEffect: under its key, also after another change.
func TestARetriedChangeHasNoFurtherEffect(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	change(t, p, id, to("Small", "change-1"))
	change(t, p, id, to("Pro", "change-2"))
	if got := change(t, p, id, to("Small", "change-1")); !got.Replayed || got.Subscription.NextPlan != "Small" {
		t.Errorf("the retry is answered with %+v", got)
	}
	wantPlans(t, s, p, id, "Pro", "", 1200)
	refuses(t, p, id, to("Tiny", "change-1"), payments.ErrKeyReused)
	wantPlans(t, s, p, id, "Pro", "", 1200)
}

// TestAnImmediateCancellationCreditsWhatWasPaid, and not what the next plan would cost.
func TestAnImmediateCancellationCreditsWhatWasPaid(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	change(t, p, id, to("Small", "change-1"))
	must(t, p.Cancel(t.Context(), id, false))
	if got := s.Fee(id); got != 1200 {
		t.Errorf("the rest is credited at a price of %d", got)
	}
	if got := subscription(t, p, id); !got.Ended {
		t.Errorf("%+v", got)
	}
}

// TestAChangeAtTheInstantOfARenewal belongs to the end of the period that was just paid, at the old fee.
func TestAChangeAtTheInstantOfARenewal(t *testing.T) {
	for name, tc := range map[string]struct {
		pending          string
		to               payments.PlanChange
		plan, next       string
		paid, fee, later int64 // the new period's, the next one's, and the one's after that
	}{
		"nothing pending": {"", to("Small", "k"), "Pro", "Small", 1200, 500, 500},
		"another pending": {"Tiny", to("Small", "k"), "Tiny", "Small", 500, 500, 500},
		"taken back":      {"Tiny", payments.PlanChange{Plan: "Pro", AmountMinor: 1300, Description: "Quire Pro", Key: "k"}, "Tiny", "Pro", 500, 1300, 1300},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := start(t, stripetest.Config{})
			id, _ := subscribed(t, s, p)
			if tc.pending != "" {
				change(t, p, id, to(tc.pending, "pending"))
			}
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
			change(t, p, id, tc.to)
			wantPlans(t, s, p, id, tc.plan, tc.next, tc.fee)
			if fee := payment(t, p, subscription(t, p, id).LatestPayment); fee.AmountMinor != tc.paid {
				t.Errorf("the fee of the new period is %+v", fee)
			}
			must(t, s.Renew(id))
			wantPlans(t, s, p, id, tc.next, "", tc.later)
		})
	}
}

// TestTheNextPriceIsTaxedAsTheFirst, whatever the configuration has become.
func TestTheNextPriceIsTaxedAsTheFirst(t *testing.T) {
	s, taxed := start(t, stripetest.Config{TaxPercent: 10}, func(c *Config) { c.AutomaticTax = true })
	id, _ := subscribed(t, s, taxed)
	plain := connect(t, s)
	change(t, plain, id, to("Small", "change-1"))
	must(t, s.Renew(id))
	if fee := payment(t, plain, subscription(t, plain, id).LatestPayment); fee.AmountMinor != 550 || fee.TaxMinor != 50 {
		t.Errorf("the fee is %+v", fee)
	}
}

// TestAPlanEndsUnderAKey: a retry that comes late does not end it again.
func TestAPlanEndsUnderAKey(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	end := payments.PlanChange{Key: "end-1"}
	if got := change(t, p, id, end); got.Replayed || !got.Subscription.CancelAtPeriodEnd {
		t.Errorf("%+v", got)
	}
	change(t, p, id, to("Pro", "keep-1"))
	if got := change(t, p, id, end); !got.Replayed || !got.Subscription.CancelAtPeriodEnd {
		t.Errorf("the retry is answered with %+v", got)
	}
	wantPlans(t, s, p, id, "Pro", "", 1200)
	refuses(t, p, id, to("Small", "end-1"), payments.ErrKeyReused)
	_, err := p.Checkout(t.Context(), pro("17", "end-1"))
	wantError(t, err, payments.ErrKeyReused)
}

func TestAnOutcomeThatIsUnknownIsTriedAgain(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	id, _ := subscribed(t, s, p)
	for i, fault := range []stripetest.Fault{stripetest.Cut, stripetest.Busy, stripetest.Lose} {
		for _, path := range []string{"/v1/products", "/v1/subscriptions/" + id} {
			plan := []string{"Small", "Tiny", "Less"}[i]
			s.Break("POST", path, fault)
			again := to(plan, "change-"+plan+path[len(path)-1:])
			refuses(t, p, id, again, payments.ErrUnavailable)
			change(t, p, id, again)
			wantPlans(t, s, p, id, "Pro", plan, 500)
		}
	}
}

func TestChangesThatCannotBe(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id, _ := subscribed(t, s, p)
	other := connect(t, s, func(c *Config) { c.Installation = "staging" })
	refuses(t, other, id, to("Small", "k"), payments.ErrForeign)
	for _, breaks := range []func(*payments.PlanChange){
		func(c *payments.PlanChange) { c.Plan = strings.Repeat("p", 501) }, func(c *payments.PlanChange) { c.AmountMinor = 0 },
		func(c *payments.PlanChange) { c.Description = "" }, func(c *payments.PlanChange) { c.Key = "" }, func(c *payments.PlanChange) { c.Key = strings.Repeat("k", 101) },
	} {
		invalid := to("Small", "k")
		breaks(&invalid)
		refuses(t, p, id, invalid, payments.ErrInvalid)
	}
	for _, none := range []string{"sub_none", "pi_1", "../charges"} {
		refuses(t, p, none, to("Small", "k"), payments.ErrNotFound)
	}
	wantPlans(t, s, p, id, "Pro", "", 1200)
	longest := to(strings.Repeat("p", 500), strings.Repeat("k", 100))
	change(t, p, id, longest)
	wantPlans(t, s, p, id, "Pro", longest.Plan, 500)
	must(t, s.SetSubscriptionMetadata(id, metaNextAmount, ""))
	must(t, s.SetSubscriptionMetadata(id, metaNextPlan, "Small")) // by hand, in the dashboard
	_, err := p.Subscription(t.Context(), id)
	wantError(t, err, payments.ErrMismatch, metaNextAmount)
	must(t, s.SetSubscriptionMetadata(id, metaNextPlan, ""))
	must(t, s.CancelNow(id))
	refuses(t, p, id, to("Small", "k"), payments.ErrNotFound)
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
