package stripe

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

func TestACheckoutBecomesAPaidPayment(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	hook := receive(t, p)
	s.SetEndpoint(hook.URL)
	url := checkout(t, p, credits("17", "order-1"))
	if again := must1(p.Checkout(t.Context(), credits("17", "order-1")))(t); again.URL != url || !again.Replayed {
		t.Errorf("the same order opened %s and %v", url, again)
	}
	id := must1(s.Pay(url, stripetest.Good))(t)
	must(t, s.Flush(t.Context()))
	if refs := hook.take(); len(refs) != 1 || refs[0] != (payments.Ref{Kind: payments.KindPayment, ID: id}) {
		t.Errorf("webhooks were about %v, want payment %s", refs, id)
	}
	got := payment(t, p, id)
	if got.Created.IsZero() || got.URL == "" {
		t.Errorf("created %v, receipt %q", got.Created, got.URL)
	}
	got.Created, got.URL = payments.Payment{}.Created, ""
	want := payments.Payment{ID: id, Account: "17", CreditsMicros: 500_000_000, AmountMinor: 5000, Currency: "usd", State: payments.Paid}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestAnotherOrderUnderTheSameKeyIsRefused(t *testing.T) {
	_, p := start(t, stripetest.Config{})
	checkout(t, p, credits("17", "order-1"))
	other := credits("17", "order-1")
	other.AmountMinor = 1
	_, err := p.Checkout(t.Context(), other)
	wantError(t, err, payments.ErrKeyReused)
}

func TestADeclinedCheckoutCanBePaidWithAnotherCard(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	hook := receive(t, p)
	s.SetEndpoint(hook.URL)
	url := checkout(t, p, credits("17", "order-1"))
	if _, err := s.Pay(url, stripetest.NoFunds); err == nil {
		t.Fatal("a declined card paid")
	}
	must(t, s.Flush(t.Context()))
	refs := hook.take()
	if len(refs) != 1 {
		t.Fatalf("webhooks were about %v", refs)
	}
	if got := payment(t, p, refs[0].ID); got.State != payments.Failed || got.FailureReason != "insufficient_funds" || got.KeptMinor() != 0 {
		t.Errorf("after the decline: %+v", got)
	}
	if id := must1(s.Pay(url, stripetest.Good))(t); id != refs[0].ID {
		t.Errorf("the second attempt is payment %s, the first %s", id, refs[0].ID)
	}
	if got := payment(t, p, refs[0].ID); got.State != payments.Paid || got.FailureReason != "" {
		t.Errorf("after the second attempt: %+v", got)
	}
	if _, err := s.Pay(url, stripetest.Good); err == nil {
		t.Error("a page was paid twice")
	}
}

func TestABankDebitIsPendingUntilItSettles(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	for _, succeeds := range []bool{true, false} {
		id := must1(s.PayLater(checkout(t, p, credits("17", map[bool]string{true: "a", false: "b"}[succeeds]))))(t)
		if got := payment(t, p, id); got.State != payments.Pending {
			t.Errorf("before it settles: %+v", got)
		}
		must(t, s.Settle(id, succeeds))
		if got := payment(t, p, id); (got.State == payments.Paid) != succeeds || (got.State == payments.Failed) == succeeds {
			t.Errorf("settled %t: %+v", succeeds, got)
		}
	}
}

func TestTaxAndInvoiceOfAPayment(t *testing.T) {
	s, p := start(t, stripetest.Config{TaxPercent: 19}, func(c *Config) { c.AutomaticTax, c.Invoices = true, true })
	got := payment(t, p, buy(t, s, p, "17", "order-1"))
	if got.AmountMinor != 5950 || got.TaxMinor != 950 || !strings.HasPrefix(got.Number, "STANDIN-") || !strings.Contains(got.URL, "invoice") {
		t.Errorf("got %+v", got)
	}
	// The settings of today don't change what was paid before.
	if later := payment(t, connect(t, s), got.ID); later != got {
		t.Errorf("with other settings: %+v, want %+v", later, got)
	}
}

func TestOneCustomerPerAccountEvenIfTheSearchLags(t *testing.T) {
	s, p := start(t, stripetest.Config{SearchLag: true})
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			if _, err := p.Checkout(t.Context(), credits("17", "order-"+string(rune('a'+i)))); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	s.Reindex()
	checkout(t, p, credits("17", "order-z"))
	checkout(t, p, credits("1", "order-y")) // not a part of 17
	moved := credits("17", "order-x")
	moved.Email = "b@example.com"
	checkout(t, p, moved)
	if ids := s.Customers(metaAccount, "17"); len(ids) != 1 {
		t.Errorf("account 17 has the customers %v", ids)
	}
	c, err := p.find(t.Context(), "17")
	if err != nil || c.Email != "b@example.com" {
		t.Errorf("customer %+v, error %v", c, err)
	}
}

func TestTheOldestOfSeveralCustomersIsUsed(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	buy(t, s, p, "17", "order-1")
	s.Advance(time.Hour)
	params := &stripe.CustomerCreateParams{Metadata: map[string]string{metaInstallation: "test", metaAccount: "17"}}
	must1(p.api.V1Customers.Create(t.Context(), params))(t)
	must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t) // the newer one has no card
}

func TestPricesAreChargedInTheirOwnCurrency(t *testing.T) {
	_, p := start(t, stripetest.Config{})
	if params := p.sessionParams(credits("17", "order-1"), sale{}, "cus_1"); *params.AdaptivePricing.Enabled {
		t.Error("Stripe may charge another currency")
	}
}

func TestInstallationsThatShareAStripeAccountStayApart(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	other := connect(t, s, func(c *Config) { c.Installation = "staging" })
	a, b := buy(t, s, p, "17", "order-1"), buy(t, s, other, "17", "order-1")
	_, err := p.Payment(t.Context(), b)
	wantError(t, err, payments.ErrForeign, "staging")
	payment(t, p, a)
	if ids := s.Customers(metaAccount, "17"); len(ids) != 2 {
		t.Errorf("the installations have the customers %v", ids)
	}
}

func TestThePortalOpensForAnAccount(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	url := must1(p.Portal(t.Context(), payments.Customer{Account: "17", Email: "a@example.com"}, "https://quire.example/plan"))(t)
	if !strings.HasPrefix(url, s.URL+"/portal/") {
		t.Errorf("the portal is at %s", url)
	}
	_, err := p.Portal(t.Context(), payments.Customer{Account: "17"}, "")
	wantError(t, err, payments.ErrInvalid)
}

func TestInvalidOrdersAreNotSent(t *testing.T) {
	_, p := start(t, stripetest.Config{Key: "another"}) // every request would fail
	for name, change := range map[string]func(*payments.Order){
		"no account":          func(o *payments.Order) { o.Account = "" },
		"a quote":             func(o *payments.Order) { o.Account = "17' OR name:'x" },
		"no amount":           func(o *payments.Order) { o.AmountMinor = 0 },
		"a negative amount":   func(o *payments.Order) { o.AmountMinor = -5 },
		"no currency":         func(o *payments.Order) { o.Currency = "" },
		"an upper-case one":   func(o *payments.Order) { o.Currency = "USD" },
		"nothing sold":        func(o *payments.Order) { o.CreditsMicros = 0 },
		"negative credits":    func(o *payments.Order) { o.CreditsMicros = -1 },
		"two things sold":     func(o *payments.Order) { o.Plan = "Pro" },
		"no key":              func(o *payments.Order) { o.Key = "" },
		"a key with newlines": func(o *payments.Order) { o.Key = "a\nb" },
		"a long key":          func(o *payments.Order) { o.Key = strings.Repeat("k", 101) },
		"no success URL":      func(o *payments.Order) { o.SuccessURL = "" },
		"no cancel URL":       func(o *payments.Order) { o.CancelURL = "" },
		"no description":      func(o *payments.Order) { o.Description = "" },
	} {
		t.Run(name, func(t *testing.T) {
			o := credits("17", "order-1")
			change(&o)
			_, err := p.Checkout(t.Context(), o)
			wantError(t, err, payments.ErrInvalid)
		})
	}
}

func TestErrorsDontShowTheKey(t *testing.T) {
	_, p := start(t, stripetest.Config{Key: "another"})
	_, err := p.Checkout(t.Context(), credits("17", "order-1"))
	if err == nil || strings.Contains(err.Error(), stripetest.DefaultKey) || errors.Is(err, payments.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	wantError(t, err, err, "the API key is invalid")
}

func TestConfigReportsEveryFault(t *testing.T) {
	_, err := New(Config{WebhookSecret: "sk_test_swapped", Installation: "a b", MaxRetries: 9})
	for _, part := range []string{"Key: missing", "WebhookSecret", "Installation", "MaxRetries"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v doesn't say %q", err, part)
		}
	}
	if err != nil && strings.Contains(err.Error(), "swapped") {
		t.Errorf("error %v shows a secret", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	if err := keepRedirect(nil, nil); !errors.Is(err, http.ErrUseLastResponse) {
		t.Error(err)
	}
}
