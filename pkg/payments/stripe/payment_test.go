package stripe

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

func TestRefundsAndDisputesOfAPayment(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id := buy(t, s, p, "17", "order-1")
	check := func(step string, refunded, disputed, credits int64) {
		t.Helper()
		got := payment(t, p, id)
		if got.State != payments.Paid || got.RefundedMinor != refunded || got.DisputedMinor != disputed || got.KeptCreditsMicros() != credits {
			t.Errorf("%s: refunded %d, disputed %d, %d credits kept in %+v", step, refunded, disputed, got.KeptCreditsMicros(), got)
		}
	}
	check("paid", 0, 0, 500_000_000)
	must1(s.Refund(id, 1000))(t)
	check("a part refunded", 1000, 0, 400_000_000)
	second := must1(s.Refund(id, 500))(t)
	check("another part refunded", 1500, 0, 350_000_000)
	must(t, s.FailRefund(second))
	check("a refund failed", 1000, 0, 400_000_000)
	inquiry := must1(s.Inquire(id))(t)
	check("an inquiry", 1000, 0, 400_000_000)
	must(t, s.Escalate(inquiry))
	check("a dispute after a refund", 1000, 5000, 0)
	must(t, s.WinDispute(inquiry))
	check("a dispute won", 1000, 0, 400_000_000)
	lost := must1(s.Dispute(id))(t)
	check("a dispute", 1000, 5000, 0)
	must(t, s.LoseDispute(lost))
	check("a dispute lost", 1000, 5000, 0)
}

func TestADisputeInAnotherCurrencyIsOneOfTheWhole(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id := buy(t, s, p, "17", "order-1")
	must1(s.DisputeIn(id, 4600, "eur"))(t)
	if got := payment(t, p, id); got.DisputedMinor != 5000 {
		t.Errorf("got %+v", got)
	}
}

func TestEveryRefundOfAPaymentIsCounted(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id := buy(t, s, p, "17", "order-1")
	for range 230 {
		must1(s.Refund(id, 2))(t)
	}
	if got := payment(t, p, id); got.RefundedMinor != 460 {
		t.Errorf("refunded %d, want 460", got.RefundedMinor)
	}
}

func TestPaymentsThatCantBeCredited(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	for name, change := range map[string]struct {
		key, value string
		want       error
	}{
		"no account":           {metaAccount, "", payments.ErrMismatch},
		"an invalid account":   {metaAccount, "1 2", payments.ErrMismatch},
		"no credits":           {metaCredits, "", payments.ErrMismatch},
		"negative credits":     {metaCredits, "-5", payments.ErrMismatch},
		"credits of no number": {metaCredits, "5.5", payments.ErrMismatch},
		"no currency":          {metaCurrency, "", payments.ErrMismatch},
		"another currency":     {metaCurrency, "eur", payments.ErrMismatch},
		"no amount":            {metaAmount, "", payments.ErrMismatch},
		"a higher amount":      {metaAmount, "5001", payments.ErrMismatch},
		"a lower amount":       {metaAmount, "1", payments.ErrMismatch},
		"a plan":               {metaPlan, "Pro", payments.ErrMismatch},
		"no installation":      {metaInstallation, "", payments.ErrMismatch},
		"another installation": {metaInstallation, "staging", payments.ErrForeign},
		"a session without it": {metaSession, "tax", nil},
	} {
		t.Run(name, func(t *testing.T) {
			id := buy(t, s, p, "17", strings.ReplaceAll(name, " ", "-"))
			must(t, s.SetMetadata(id, change.key, change.value))
			got, err := p.Payment(t.Context(), id)
			wantError(t, err, change.want)
			if err != nil && got != (payments.Payment{}) {
				t.Errorf("with the error comes %+v", got)
			}
		})
	}
}

func TestPaymentsOfOthersAndUnknownOnes(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	foreign := s.CreateIntent(700, "usd", map[string]string{"shop": "7"})
	must(t, s.PayIntent(foreign))
	_, err := p.Payment(t.Context(), foreign)
	wantError(t, err, payments.ErrForeign, foreign)
	for _, id := range []string{"pi_none", "", "../customers", "sub_1", "pi_/../../events?"} {
		_, err := p.Payment(t.Context(), id)
		wantError(t, err, payments.ErrNotFound)
	}
	for _, id := range []string{"sub_none", "", "pi_1"} {
		_, err := p.Subscription(t.Context(), id)
		wantError(t, err, payments.ErrNotFound)
	}
}

func TestAPaymentWhoseSessionIsMissingIsAMismatch(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id := s.CreateIntent(700, "usd", p.metadata(sale{account: "17", credits: 70, amount: 700, currency: "usd", session: "tax"}))
	must(t, s.PayIntent(id))
	_, err := p.Payment(t.Context(), id)
	wantError(t, err, payments.ErrMismatch, "session")
}

func TestACanceledPaymentHasFailed(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	id := s.CreateIntent(700, "usd", p.metadata(sale{account: "17", credits: 70, amount: 700, currency: "usd"}))
	if got := payment(t, p, id); got.State != payments.Pending {
		t.Errorf("new: %+v", got)
	}
	must(t, s.CancelIntent(id))
	if got := payment(t, p, id); got.State != payments.Failed || got.FailureReason != "canceled" {
		t.Errorf("canceled: %+v", got)
	}
}

func TestAFailureOfStripeIsUnavailable(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	id := buy(t, s, p, "17", "order-1")
	for _, fault := range []stripetest.Fault{stripetest.Cut, stripetest.Busy, stripetest.Fail, stripetest.Lose} {
		for _, path := range []string{"/v1/payment_intents/" + id, "/v1/refunds", "/v1/disputes"} {
			s.Break("GET", path, fault)
			_, err := p.Payment(t.Context(), id)
			wantError(t, err, payments.ErrUnavailable)
		}
	}
	retrying := connect(t, s)
	s.Break("GET", "/v1/payment_intents/"+id, stripetest.Cut)
	s.Break("GET", "/v1/refunds", stripetest.Lose)
	payment(t, retrying, id)
}

func TestTheLifeOfASubscription(t *testing.T) {
	s, p := start(t, stripetest.Config{TaxPercent: 10}, func(c *Config) { c.AutomaticTax = true })
	hook := receive(t, p)
	s.SetEndpoint(hook.URL)
	url := checkout(t, p, pro("17", "order-1"))
	if _, err := s.Pay(url, stripetest.Declining); err == nil {
		t.Fatal("a declined card began a subscription")
	}
	first := must1(s.Pay(url, stripetest.Good))(t)
	customer := s.Customers(metaAccount, "17")[0]
	id := s.Subscriptions(customer)[0]
	must(t, s.Flush(t.Context()))
	if refs := hook.take(); len(refs) != 2 || refs[0].ID != first || refs[1] != (payments.Ref{Kind: payments.KindSubscription, ID: id}) {
		t.Errorf("webhooks were about %v", refs)
	}
	begun := subscription(t, p, id)
	want := payments.Subscription{ID: id, Account: "17", Plan: "Pro", FeeMinor: 1200, Active: true, CurrentPeriodEnd: begun.CurrentPeriodEnd, LatestPayment: first, Created: begun.Created}
	if begun != want || begun.CurrentPeriodEnd.IsZero() {
		t.Errorf("begun: %+v, want %+v", begun, want)
	}
	fee := payment(t, p, first)
	if fee.Plan != "Pro" || fee.Subscription != id || fee.Account != "17" || fee.CreditsMicros != 0 || fee.AmountMinor != 1320 || fee.TaxMinor != 120 ||
		fee.State != payments.Paid || fee.Number == "" {
		t.Errorf("first fee: %+v", fee)
	}

	must(t, s.Renew(id))
	renewed := subscription(t, p, id)
	if renewed.LatestPayment == first || !renewed.CurrentPeriodEnd.After(begun.CurrentPeriodEnd) || !renewed.Active {
		t.Errorf("renewed: %+v", renewed)
	}
	must(t, s.SaveCard(customer, stripetest.Expired))
	must(t, s.Renew(id))
	late := subscription(t, p, id)
	if !late.Active || !late.PastDue {
		t.Errorf("with a card that expired: %+v", late)
	}
	if unpaid := payment(t, p, late.LatestPayment); unpaid.State != payments.Failed || unpaid.Plan != "Pro" || unpaid.FailureReason != "expired_card" {
		t.Errorf("its fee: %+v", unpaid)
	}
	must(t, s.SaveCard(customer, stripetest.Good))
	must(t, s.Retry(id))
	if got := subscription(t, p, id); !got.Active || got.PastDue || got.LatestPayment != late.LatestPayment {
		t.Errorf("after the retry: %+v", got)
	}
	must(t, s.CancelAtPeriodEnd(id, true))
	if got := subscription(t, p, id); !got.Active || !got.CancelAtPeriodEnd {
		t.Errorf("canceled at the period's end: %+v", got)
	}
	must(t, s.Renew(id))
	if got := subscription(t, p, id); got.Active || got.PastDue || !got.Ended {
		t.Errorf("ended: %+v", got)
	}
}

func TestSubscriptionsThatCantBeUsed(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	must1(s.Pay(checkout(t, p, pro("17", "order-1")), stripetest.Good))(t)
	id := s.Subscriptions(s.Customers(metaAccount, "17")[0])[0]
	whole := p.metadata(sale{account: "17", plan: "Pro", amount: 1200, currency: "usd"})
	for _, c := range []struct {
		key, value string
		want       error
	}{
		{metaCurrency, "eur", payments.ErrMismatch},
		{metaCurrency, "", payments.ErrMismatch},
		{metaPlan, "", payments.ErrMismatch},
		{metaAccount, "", payments.ErrMismatch},
		{metaInstallation, "staging", payments.ErrForeign},
		{metaCredits, "5", nil},
	} {
		must(t, s.SetSubscriptionMetadata(id, c.key, c.value))
		_, err := p.Subscription(t.Context(), id)
		wantError(t, err, c.want)
		must(t, s.SetSubscriptionMetadata(id, c.key, whole[c.key]))
	}
	must(t, s.SetSubscriptionMetadata(id, metaCurrency, "eur"))
	must(t, s.CancelNow(id))
	if got := subscription(t, p, id); !got.Ended {
		t.Errorf("a plan doesn't end, since its currency is another: %+v", got)
	}
	if got := changed(t, p, time.Time{}); !slices.Contains(got, payments.Ref{Kind: payments.KindSubscription, ID: id}) {
		t.Errorf("an ended subscription isn't among %v", got)
	}
}

func TestCancelEndsASubscription(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	must1(s.Pay(checkout(t, p, pro("17", "order-1")), stripetest.Good))(t)
	id := s.Subscriptions(s.Customers(metaAccount, "17")[0])[0]
	must(t, p.Cancel(t.Context(), id, true))
	must(t, p.Cancel(t.Context(), id, true))
	if got := subscription(t, p, id); !got.Active || !got.CancelAtPeriodEnd || got.Ended {
		t.Errorf("at the period's end: %+v", got)
	}
	other := connect(t, s, func(c *Config) { c.Installation = "staging" })
	wantError(t, other.Cancel(t.Context(), id, false), payments.ErrForeign)
	wantError(t, p.Cancel(t.Context(), "sub_none", false), payments.ErrNotFound)
	s.Break("DELETE", "/v1/subscriptions/"+id, stripetest.Lose)
	wantError(t, p.Cancel(t.Context(), id, false), payments.ErrUnavailable)
	for _, atPeriodEnd := range []bool{false, true} {
		must(t, p.Cancel(t.Context(), id, atPeriodEnd))
	}
	if got := subscription(t, p, id); got.Active || !got.Ended {
		t.Errorf("at once: %+v", got)
	}
}
