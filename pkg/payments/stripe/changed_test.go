package stripe

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

func changed(t *testing.T, p *Provider, since time.Time) []payments.Ref {
	t.Helper()
	var refs []payments.Ref
	for ref, err := range p.Changed(t.Context(), since) {
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, ref)
	}
	n := len(refs)
	if refs = sorted(refs); len(refs) != n {
		t.Errorf("of %d refs only %d differ", n, len(refs))
	}
	return refs
}

func paymentRef(id string) payments.Ref { return payments.Ref{Kind: payments.KindPayment, ID: id} }

// bulk makes paid payments without the detour over pages.
func bulk(t *testing.T, s *stripetest.Server, p *Provider, n int) []payments.Ref {
	t.Helper()
	refs := make([]payments.Ref, n)
	for i := range refs {
		id := s.CreateIntent(700, "usd", p.metadata(sale{account: fmt.Sprint(i), credits: 70, amount: 700, currency: "usd"}))
		must(t, s.PayIntent(id))
		refs[i] = paymentRef(id)
	}
	return refs
}

func TestChangedFindsEverythingOnAllPages(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	want := bulk(t, s, p, 250)
	first := must1(s.Pay(checkout(t, p, pro("17", "order-1")), stripetest.Good))(t)
	id := s.Subscriptions(s.Customers(metaAccount, "17")[0])[0]
	want = sorted(append(want, paymentRef(first), payments.Ref{Kind: payments.KindSubscription, ID: id}))
	for name, since := range map[string]time.Time{"an hour": time.Now().Add(-time.Hour), "all": {}, "a year": time.Now().AddDate(-1, 0, 0)} {
		if got := changed(t, p, since); !slices.Equal(got, want) {
			t.Errorf("%s: %d refs, want %d", name, len(got), len(want))
		}
	}
	if got := changed(t, p, time.Now().Add(time.Hour)); len(got) != 0 {
		t.Errorf("in the future: %v", got)
	}
}

// The stand-in's clock begins in the past, so that its events expire as of now.
func TestChangedFindsLaterChangesOfOldPayments(t *testing.T) {
	begin := time.Now().AddDate(0, 0, -90)
	s, p := start(t, stripetest.Config{Now: func() time.Time { return begin }})
	ids := bulk(t, s, p, 6)
	dispute := must1(s.Dispute(ids[2].ID))(t)
	late := must1(s.PayLater(checkout(t, p, credits("17", "order-1"))))(t)
	must1(s.Pay(checkout(t, p, pro("18", "order-2")), stripetest.Good))(t)
	renewed := payments.Ref{Kind: payments.KindSubscription, ID: s.Subscriptions(s.Customers(metaAccount, "18")[0])[0]}
	must1(s.Pay(checkout(t, p, pro("19", "order-3")), stripetest.Good))(t)
	ended := payments.Ref{Kind: payments.KindSubscription, ID: s.Subscriptions(s.Customers(metaAccount, "19")[0])[0]}
	s.Advance(10 * 24 * time.Hour)
	must(t, s.Settle(late, true))
	s.Advance(40 * 24 * time.Hour) // 40 days ago
	must1(s.Refund(ids[0].ID, 100))(t)
	must1(s.Dispute(ids[1].ID))(t)
	must(t, s.WinDispute(dispute))
	must(t, s.CancelNow(ended.ID))
	s.Advance(38 * 24 * time.Hour) // two days ago
	must1(s.Refund(ids[3].ID, 100))(t)
	must(t, s.Renew(renewed.ID))

	recent := changed(t, p, time.Now().AddDate(0, 0, -3))
	if !slices.Contains(recent, ids[3]) || !slices.Contains(recent, renewed) || slices.Contains(recent, ids[0]) {
		t.Errorf("in three days: %v", recent)
	}
	for _, days := range []int{45, 80} {
		got := changed(t, p, time.Now().AddDate(0, 0, -days))
		want := []payments.Ref{ids[0], ids[1], ids[2], ids[3], renewed, ended}
		if days == 80 {
			want = append(want, paymentRef(late))
		}
		for _, ref := range want {
			if !slices.Contains(got, ref) {
				t.Errorf("in %d days: %v is missing", days, ref)
			}
		}
	}
}

func TestChangedStopsWhenItsCallerDoes(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	bulk(t, s, p, 250)
	for _, since := range []time.Time{{}, time.Now().Add(-time.Hour)} {
		n := 0
		for range p.Changed(t.Context(), since) {
			if n++; n == 3 {
				break
			}
		}
		if n != 3 {
			t.Errorf("%d refs", n)
		}
	}
}

func TestChangedEndsWithAnError(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	bulk(t, s, p, 250)
	for _, path := range []string{"/v1/subscriptions", "/v1/payment_intents", "/v1/refunds", "/v1/disputes", "/v1/events"} {
		s.Break("GET", path, stripetest.Fail)
		var errs []error
		for ref, err := range p.Changed(t.Context(), time.Unix(1, 0)) {
			if err != nil {
				errs = append(errs, err)
			}
			if err != nil && ref != (payments.Ref{}) {
				t.Errorf("with the error comes %v", ref)
			}
		}
		if len(errs) != 1 {
			t.Fatalf("%s: errors %v", path, errs)
		}
		wantError(t, errs[0], payments.ErrUnavailable)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range p.Changed(ctx, time.Time{}) {
		cancel()
		last = err
	}
	wantError(t, last, context.Canceled)
}

// Whatever happens to webhooks, those that arrive and a reconciliation together name every payment.
func TestWebhooksWithFaultsAndReconciliation(t *testing.T) {
	n, random := seed(t)
	s, p := start(t, stripetest.Config{
		Seed: n, Faults: stripetest.Faults{Never: 0.2, Twice: 0.3, Late: 0.3, Shuffle: 0.8, AtOnce: 4}, EventTypes: EventTypes(),
	})
	hook := receive(t, p)
	hook.fail = func() bool { return random.Float64() < 0.3 }
	s.SetEndpoint(hook.URL)
	var want, refs []payments.Ref
	for range 5 {
		want = append(want, bulk(t, s, p, 40)...)
		for _, ref := range want {
			if random.Float64() < 0.1 {
				_, _ = s.Refund(ref.ID, 1+random.Int64N(700)) // more than is left is refused
			}
		}
		_ = s.Deliver(t.Context())
		refs = append(refs, hook.take()...)
	}
	hook.fail = func() bool { return false }
	must(t, s.Flush(t.Context()))
	refs = sorted(append(refs, hook.take()...))
	if s.Dropped() == 0 || s.Queued() != 0 || len(refs) == 0 {
		t.Fatalf("%d dropped, %d queued, %d received", s.Dropped(), s.Queued(), len(refs))
	}
	for _, ref := range refs {
		if !slices.Contains(want, ref) {
			t.Errorf("a webhook was about %v", ref)
		}
	}
	refs = sorted(append(refs, changed(t, p, time.Now().Add(-time.Hour))...))
	if want = sorted(want); !slices.Equal(refs, want) {
		t.Errorf("%d refs, want %d", len(refs), len(want))
	}
	for _, at := range s.Payments() {
		if got := payment(t, p, at.ID); got.KeptMinor() != at.ReceivedMinor-at.RefundedMinor || got.RefundedMinor != at.RefundedMinor {
			t.Errorf("got %+v, want %+v", got, at)
		}
	}
}
