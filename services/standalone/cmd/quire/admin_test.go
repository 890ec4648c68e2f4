package main

import (
	"testing"
	"time"
)

// TestProgressEstimatesTheTimeLeft from the rate so far. Below one message a second it shows neither.
func TestProgressEstimatesTheTimeLeft(t *testing.T) {
	for name, c := range map[string]struct {
		done, total uint64
		spent       time.Duration
		want        string
	}{
		"nothing done":               {0, 100, time.Minute, ""},
		"a tenth":                    {1_000, 10_000, 10 * time.Second, ", 100 a second, about 1m30s left"},
		"hours":                      {3_000, 1_083_000, 10 * time.Second, ", 300 a second, about 1h0m0s left"},
		"rounded to seconds":         {3, 10, 2 * time.Second, ", 2 a second, about 5s left"},
		"all":                        {500, 500, 5 * time.Second, ", 100 a second, about 0s left"},
		"more than there were":       {501, 500, 5010 * time.Millisecond, ", 100 a second, about 0s left"},
		"one a second":               {10, 20, 10 * time.Second, ", 1 a second, about 10s left"},
		"less than one a second":     {10, 20, 10*time.Second + time.Millisecond, ""},
		"before the clock has moved": {1, 2_001, 0, ", 1000 a second, about 2s left"},
	} {
		if got := pace(c.done, c.total, c.spent); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
