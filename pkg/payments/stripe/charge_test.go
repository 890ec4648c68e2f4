package stripe

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v82"

	"quire.dev/pkg/payments"
	"quire.dev/pkg/payments/stripe/stripetest"
)

const intents = "/v1/payment_intents"

// charges counts the payments with a top-up's key that moved money.
func charges(s *stripetest.Server, key string) int {
	n := 0
	for _, p := range s.Payments() {
		if p.Metadata[metaKey] == key && p.ReceivedMinor > 0 {
			n++
		}
	}
	return n
}

func wantOneCharge(t *testing.T, s *stripetest.Server, key string) {
	t.Helper()
	if n := charges(s, key); n != 1 {
		t.Errorf("%d charges with the key %s", n, key)
	}
}

func TestAChargeHappensOncePerKey(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	buy(t, s, p, "17", "order-1")
	first := must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t)
	if first.State != payments.Paid || first.Account != "17" || first.CreditsMicros != 100_000_000 || first.AmountMinor != 1000 || first.Currency != "usd" {
		t.Errorf("got %+v", first)
	}
	if read := payment(t, p, first.ID); read != first {
		t.Errorf("read back: %+v, want %+v", read, first)
	}
	for _, later := range []time.Duration{0, 23 * time.Hour, 5 * 24 * time.Hour} { // Stripe forgets the key after a day
		s.Advance(later)
		if again := must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t); again != first {
			t.Errorf("%v later: %+v, want %+v", later, again, first)
		}
	}
	wantOneCharge(t, s, "crossing-1")
	must1(p.Charge(t.Context(), topUp("17", "crossing-2")))(t)
	wantOneCharge(t, s, "crossing-2")
}

func TestManyCallersChargeOnce(t *testing.T) {
	s, p := start(t, stripetest.Config{SearchLag: true})
	buy(t, s, p, "17", "order-1")
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			if got, err := p.Charge(t.Context(), topUp("17", "crossing-1")); err != nil || got.State != payments.Paid {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	calls.Wait()
	wantOneCharge(t, s, "crossing-1")
}

func TestAChargeWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	for name, fault := range map[string]stripetest.Fault{"lost": stripetest.Lose, "held": stripetest.Hold} {
		t.Run(name, func(t *testing.T) {
			s, p := start(t, stripetest.Config{}, withoutRetries)
			buy(t, s, p, "17", "order-1")
			charged := s.Break("POST", intents, fault)
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			var waiting sync.WaitGroup
			waiting.Go(func() { // gives up once Stripe has charged
				select {
				case <-charged:
				case <-ctx.Done():
				}
				if fault == stripetest.Hold {
					giveUp()
				}
			})
			_, err := p.Charge(ctx, topUp("17", "crossing-1"))
			giveUp()
			waiting.Wait()
			wantError(t, err, payments.ErrUnavailable)
			wantOneCharge(t, s, "crossing-1")
			got := must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t)
			if got.State != payments.Paid {
				t.Errorf("got %+v", got)
			}
			wantOneCharge(t, s, "crossing-1")
		})
	}
}

func TestStripeGoRetriesUnderTheSameKey(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	buy(t, s, p, "17", "order-1")
	s.Break("POST", intents, stripetest.Cut)
	s.Break("POST", intents, stripetest.Lose)
	must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t)
	wantOneCharge(t, s, "crossing-1")
}

func TestAChargeWithAnotherCardAfterALostAnswerIsNotRepeated(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	buy(t, s, p, "17", "order-1")
	s.Break("POST", intents, stripetest.Lose)
	_, err := p.Charge(t.Context(), topUp("17", "crossing-1"))
	wantError(t, err, payments.ErrUnavailable)
	must(t, s.SaveCard(s.Customers(metaAccount, "17")[0], stripetest.Good))
	must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t)
	wantOneCharge(t, s, "crossing-1")
}

// Stripe repeats a 500 under its key for a day. A charge that did not happen happens after that.
func TestAChargeThatStripeFailedIsMadeLater(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	buy(t, s, p, "17", "order-1")
	s.Break("POST", intents, stripetest.Fail)
	for range 2 {
		_, err := p.Charge(t.Context(), topUp("17", "crossing-1"))
		wantError(t, err, payments.ErrUnavailable, "500")
	}
	if n := charges(s, "crossing-1"); n != 0 {
		t.Errorf("%d charges after failures", n)
	}
	s.Advance(25 * time.Hour)
	must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t)
	wantOneCharge(t, s, "crossing-1")
}

func TestAChargeWithAnotherCardAfterAFailureIsUnavailable(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	buy(t, s, p, "17", "order-1")
	s.Break("POST", intents, stripetest.Fail)
	for range 2 { // 500, then the key is in use with another card
		_, err := p.Charge(t.Context(), topUp("17", "crossing-1"))
		wantError(t, err, payments.ErrUnavailable)
		must(t, s.SaveCard(s.Customers(metaAccount, "17")[0], stripetest.Good))
	}
}

func TestKeysOfTwoAccountsAreApart(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	for _, account := range []string{"17", "18"} {
		buy(t, s, p, account, "order-1")
		if got := must1(p.Charge(t.Context(), topUp(account, "crossing-1")))(t); got.Account != account {
			t.Errorf("account %s was charged for %s", got.Account, account)
		}
	}
}

func TestTheCardThatIsCharged(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	for i, step := range []struct {
		save  func(card stripetest.Card)
		card  stripetest.Card
		works bool
	}{
		{func(c stripetest.Card) { must1(s.Pay(checkout(t, p, credits("17", "order-1")), c))(t) }, stripetest.AsksConfirmation, false},
		{func(c stripetest.Card) { must1(s.Pay(checkout(t, p, credits("17", "order-2")), c))(t) }, stripetest.Good, true},  // the newest
		{func(c stripetest.Card) { must(t, s.SaveCard(s.Customers(metaAccount, "17")[0], c)) }, stripetest.NoFunds, false}, // the default
		{func(c stripetest.Card) { must1(s.Pay(checkout(t, p, credits("17", "order-3")), c))(t) }, stripetest.Good, false}, // not the default
	} {
		s.Advance(time.Hour)
		step.save(step.card)
		_, err := p.Charge(t.Context(), topUp("17", "crossing-"+string(rune('a'+i))))
		var d *payments.Declined
		if step.works && err != nil || !step.works && !errors.As(err, &d) {
			t.Errorf("step %d with %s: %v", i, step.card, err)
		}
	}
}

func TestAChargeThatWaitsForItsHolderIsDeclined(t *testing.T) {
	_, err := result(&stripe.PaymentIntent{ID: "pi_1", Status: stripe.PaymentIntentStatusRequiresAction}, payments.Payment{State: payments.Pending})
	var d *payments.Declined
	if !errors.As(err, &d) || d.Reason != payments.AuthenticationRequired || d.Payment != "pi_1" {
		t.Errorf("error %v", err)
	}
}

func TestABusyStripeIsUnavailable(t *testing.T) {
	s, p := start(t, stripetest.Config{}, withoutRetries)
	buy(t, s, p, "17", "order-1")
	for _, fault := range []stripetest.Fault{stripetest.Busy, stripetest.InUse, stripetest.Cut} {
		for _, method := range []string{"GET", "POST"} {
			s.Break(method, intents, fault)
			_, err := p.Charge(t.Context(), topUp("17", "crossing-1"))
			wantError(t, err, payments.ErrUnavailable)
		}
	}
	if n := charges(s, "crossing-1"); n != 0 {
		t.Errorf("%d charges", n)
	}
}

func TestDeclinedCharges(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	buy(t, s, p, "17", "order-1")
	customer := s.Customers(metaAccount, "17")[0]
	for _, card := range []stripetest.Card{stripetest.Declining, stripetest.NoFunds, stripetest.Expired, stripetest.AsksConfirmation} {
		t.Run(string(card), func(t *testing.T) {
			must(t, s.SaveCard(customer, card))
			_, err := p.Charge(t.Context(), topUp("17", "crossing-"+string(card)))
			var first, second *payments.Declined
			if !errors.As(err, &first) || first.Reason != string(card) || first.Message == "" || first.Payment == "" || errors.Is(err, payments.ErrUnavailable) {
				t.Fatalf("error %#v", err)
			}
			must(t, s.SaveCard(customer, stripetest.Good)) // final for the key
			_, err = p.Charge(t.Context(), topUp("17", "crossing-"+string(card)))
			if !errors.As(err, &second) || *second != *first {
				t.Errorf("again: %#v, want %#v", err, first)
			}
			if got := payment(t, p, first.Payment); got.State != payments.Failed || got.FailureReason != first.Reason {
				t.Errorf("the payment is %+v", got)
			}
		})
	}
}

func TestAChargeWithoutAPaymentMethodIsDeclined(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	for _, account := range []string{"17", "17", "18"} {
		_, err := p.Charge(t.Context(), topUp(account, "crossing-"+account))
		var d *payments.Declined
		if !errors.As(err, &d) || d.Reason != payments.NoPaymentMethod || d.Payment != "" {
			t.Errorf("error %#v", err)
		}
	}
	if n := len(s.Payments()); n != 0 {
		t.Errorf("%d payments", n)
	}
}

func TestAnotherTopUpUnderTheSameKeyIsAMismatch(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	buy(t, s, p, "17", "order-1")
	must1(p.Charge(t.Context(), topUp("17", "crossing-1")))(t)
	for name, change := range map[string]func(*payments.TopUp){
		"amount":   func(t *payments.TopUp) { t.AmountMinor++ },
		"credits":  func(t *payments.TopUp) { t.CreditsMicros++ },
		"currency": func(t *payments.TopUp) { t.Currency = "eur" },
	} {
		t.Run(name, func(t *testing.T) {
			other := topUp("17", "crossing-1")
			change(&other)
			_, err := p.Charge(t.Context(), other)
			wantError(t, err, payments.ErrMismatch)
		})
	}
	wantOneCharge(t, s, "crossing-1")
}

func TestChargesThatStripeRefusesAreDeclined(t *testing.T) {
	s, p := start(t, stripetest.Config{})
	buy(t, s, p, "17", "order-1")
	small := topUp("17", "crossing-1")
	small.AmountMinor = 1
	_, err := p.Charge(t.Context(), small)
	var d *payments.Declined
	if !errors.As(err, &d) || d.Reason != "amount_too_small" {
		t.Errorf("error %v", err)
	}
	small.AmountMinor = 0
	_, err = p.Charge(t.Context(), small)
	wantError(t, err, payments.ErrInvalid)
}
