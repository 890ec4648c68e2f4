package payments

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestKeptCreditsAreTheExactShareRoundedDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Payment{
			State:         Paid,
			CreditsMicros: rapid.Int64Min(0).Draw(t, "credits"),
			AmountMinor:   rapid.Int64Range(1, 1<<61).Draw(t, "amount"),
		}
		p.RefundedMinor = rapid.Int64Range(0, p.AmountMinor).Draw(t, "refunded")
		p.DisputedMinor = rapid.Int64Range(0, p.AmountMinor).Draw(t, "disputed")
		kept := max(0, p.AmountMinor-p.RefundedMinor-p.DisputedMinor)
		want := new(big.Int).Mul(big.NewInt(p.CreditsMicros), big.NewInt(kept))
		want.Quo(want, big.NewInt(p.AmountMinor))
		if got := p.KeptCreditsMicros(); p.KeptMinor() != kept || got != want.Int64() {
			t.Fatalf("kept %d minor and %d credits, want %d and %s", p.KeptMinor(), got, kept, want)
		}
	})
}

func TestUnpaidPaymentsKeepNothing(t *testing.T) {
	for _, state := range []State{Pending, Failed, ""} {
		p := Payment{State: state, CreditsMicros: 5_000_000, AmountMinor: 500}
		if p.KeptMinor() != 0 || p.KeptCreditsMicros() != 0 {
			t.Errorf("a payment in state %q keeps %d minor and %d credits", state, p.KeptMinor(), p.KeptCreditsMicros())
		}
	}
}
