package main

import (
	"testing"

	"quire.dev/services/billing"
)

// TestTheSumOfBillsHasEachFigure, also fees and storage, which take a month to come about.
func TestTheSumOfBillsHasEachFigure(t *testing.T) {
	a := billing.Bill{Plan: "Pro", Requests: 1, Refused: 10, SpentMicros: 100, SpentCents: 1_000, FeesCents: 10_000, StorageCents: 100_000}
	b := billing.Bill{Plan: "Max", Requests: 2, Refused: 20, SpentMicros: 200, SpentCents: 2_000, FeesCents: 20_000, StorageCents: 200_000}
	ab := billing.Bill{Requests: 3, Refused: 30, SpentMicros: 300, SpentCents: 3_000, FeesCents: 30_000, StorageCents: 300_000}
	bb := billing.Bill{Requests: 4, Refused: 40, SpentMicros: 400, SpentCents: 4_000, FeesCents: 40_000, StorageCents: 400_000}
	got := total([]billing.Repriced{{Account: 1, Was: a, WouldBe: b}, {Account: 2, Was: b, WouldBe: b}})
	if want := (billing.Repriced{Was: ab, WouldBe: bb}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if view := viewBill(ab); view != (billView{"", 3, 30, "0.000300", "30.00", "300.00", "3000.00", "3330.00"}) {
		t.Errorf("%+v", view)
	}
}
