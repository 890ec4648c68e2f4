package plan_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/plan"
)

func TestAmountsAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := plan.Micros(rapid.Int64Range(-1<<60, 1<<60).Draw(t, "micros"))
		back, err := plan.ParseCredits(m.String())
		if err != nil || back != m {
			t.Fatalf("%d is %q, read as %d, %v", int64(m), m, int64(back), err)
		}
	})
}

func TestAmountsAreWrittenWithSixPlaces(t *testing.T) {
	for m, want := range map[plan.Micros]string{
		0: "0.000000", 1: "0.000001", -1: "-0.000001", 500: "0.000500", 999_999: "0.999999", 1_000_000: "1.000000",
		-12_345_678: "-12.345678", math.MaxInt64: "9223372036854.775807", math.MinInt64: "-9223372036854.775808",
	} {
		if got := m.String(); got != want {
			t.Errorf("%d is %q, want %q", int64(m), got, want)
		}
	}
}

func TestAmountsHaveAtMostSixPlaces(t *testing.T) {
	for text, want := range map[string]plan.Micros{
		"0": 0, "1": 1_000_000, "0.0005": 500, "-0.000001": -1, "+2.5": 2_500_000, "9000000000000": 9_000_000_000_000_000_000, "000.1": 100_000,
	} {
		if got, err := plan.ParseCredits(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, int64(got), err, int64(want))
		}
	}
	for _, bad := range []string{"", ".", "1.", ".5", "0.0000001", "1e3", "0x1", "1,5", " 1", "--1", "9999999999999", "10000000000000", "NaN", "٣"} {
		if got, err := plan.ParseCredits(bad); !errors.Is(err, plan.ErrCreditSyntax) {
			t.Errorf("%q was read as %d, %v", bad, int64(got), err)
		}
	}
}
