package accounts

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
)

// daysOfTwoKeys returns two days of usage with two API keys.
func daysOfTwoKeys() *event.UsageDaysAnswer {
	return &event.UsageDaysAnswer{SinceMs: 1, Days: []*event.UsageDay{
		{Day: 20_777, Usage: []*event.DayUsage{
			{QuotaKey: uint32(plan.PastesGet), Used: 2, Overage: 1, SpentMicros: 500},
			{QuotaKey: uint32(plan.PastesGet), Key: 2, Used: 3},
			{QuotaKey: uint32(plan.LiteCreate), Used: 10},
		}},
		{Day: 20_778, Usage: []*event.DayUsage{{QuotaKey: uint32(plan.PastesGet), Key: 2, Used: 5}}},
	}}
}

// TestDaysAreSplitByWhatIsAskedFor, and all splits have the same sum.
func TestDaysAreSplitByWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		by   DaysBy
		want []string // quota key and API key of each line
	}{
		{DaysBy{}, []string{" ", " "}},
		{DaysBy{QuotaKey: true}, []string{"pastes.get ", "pasteLite.create ", "pastes.get "}},
		{DaysBy{Key: true}, []string{" default", " k2", " k2"}},
		{DaysBy{QuotaKey: true, Key: true}, []string{"pastes.get default", "pastes.get k2", "pasteLite.create default", "pastes.get k2"}},
	} {
		view := ViewDays(daysOfTwoKeys(), c.by)
		var used, overage int64
		for n, d := range view.Days {
			if n >= len(c.want) || endpoint.Optional(d.QuotaKey)+" "+endpoint.Optional(d.Key) != c.want[n] {
				t.Fatalf("%+v: line %d is %s %s of %+v", c.by, n, endpoint.Optional(d.QuotaKey), endpoint.Optional(d.Key), view.Days)
			}
			used, overage = used+d.Used, overage+d.Overage
		}
		if len(view.Days) != len(c.want) || used != 20 || overage != 1 {
			t.Errorf("%+v: %+v", c.by, view.Days)
		}
	}
}

// TestNoCellIsAFormula: text that a spreadsheet would execute gets a leading apostrophe.
func TestNoCellIsAFormula(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a gift": "a gift", "=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "\r=1": "'\r=1",
		"a=1": "a=1", "'=1": "'=1", "\u00e9": "\u00e9", "a;=1": "a;'=1", "a; +1;b;@c": "a; '+1;b;'@c", ";\t=1": ";'\t=1", "a;b": "a;b", " =1": " '=1",
		"\uff1d1+1": "'\uff1d1+1", "a-b; c=d": "a-b; c=d",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}

// TestAStorageDayBelowZeroHasNoAverage: a late correction may exceed the day's storage.
func TestAStorageDayBelowZeroHasNoAverage(t *testing.T) {
	days := viewStorageDays(&event.StatementAnswer{StorageByDay: true, StorageDays: []*event.StorageDay{
		{Day: 20_777, ByteMsLow: 3*86_400_000 + 1}, {Day: 20_778, ByteMsHigh: 1<<64 - 1, ByteMsLow: 1<<64 - 86_400_001}, {Day: 20_779, ByteMsHigh: 1},
	}})
	if days[0] != (storageDayView{"2026-11-20", 3, "259200001"}) || days[1] != (storageDayView{"2026-11-21", 0, "-86400001"}) || days[2].ByteMilliseconds != "18446744073709551616" {
		t.Errorf("%+v", days)
	}
	if viewStorageDays(&event.StatementAnswer{}) != nil {
		t.Error("days of a month that is not known by day")
	}
}
