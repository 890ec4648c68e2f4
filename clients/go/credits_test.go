package client

import (
	"math"
	"testing"
)

func TestCreditsAreDecimals(t *testing.T) {
	for text, want := range map[string]Credits{
		"0": 0, "0.0005": 500, "0.000500": 500, "12.000001": 12_000_001, "-3.5": -3_500_000, "-0.000001": -1, "9223372036854.775807": math.MaxInt64,
	} {
		got, err := ParseCredits(text)
		if err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
		if again, err := ParseCredits(want.String()); err != nil || again != want {
			t.Errorf("%d is written %s, which is %d, %v", want, want, again, err)
		}
	}
	for _, text := range []string{"", "-", ".", "1.", ".5", "1.0000001", "+1", "--1", "1e3", "1,5", "0x1", "9223372036854.775808", " 1", "1_0"} {
		if got, err := ParseCredits(text); err == nil {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
	if s := Credits(math.MinInt64).String(); s != "-9223372036854.775808" {
		t.Error(s)
	}
}
