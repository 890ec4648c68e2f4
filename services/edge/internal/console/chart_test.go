package console

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// usedBy is the usage of the days from a first one on: a list of values for each key.
func usedBy(first time.Time, byKey bool, values map[uint32][]int64) *event.UsageDaysAnswer {
	out := &event.UsageDaysAnswer{SinceMs: first.UnixMilli()}
	for id, list := range values {
		for i, n := range list {
			u := &event.DayUsage{QuotaKey: id, Used: n, SpentMicros: n * 1000, Overage: n / 2}
			if byKey {
				u.QuotaKey, u.Key = uint32(plan.LiteGet), id
			}
			out.Days = append(out.Days, &event.UsageDay{Day: uint32(first.AddDate(0, 0, i).Unix() / 86400), Usage: []*event.DayUsage{u}})
		}
	}
	// A day is one document, with the usage of all keys.
	slices.SortStableFunc(out.Days, func(a, b *event.UsageDay) int { return int(a.Day) - int(b.Day) })
	var days []*event.UsageDay
	for _, d := range out.Days {
		if last := len(days) - 1; last >= 0 && days[last].Day == d.Day {
			days[last].Usage = append(days[last].Usage, d.Usage...)
			continue
		}
		days = append(days, d)
	}
	out.Days = days
	return out
}

func TestTheChartIsTheDaysOfItsView(t *testing.T) {
	now, u, days := month()
	days.Days[3].Usage[0].Used = -1_000 // a correction after midnight
	view := DefaultView()
	view.Set("range", "2026-11")
	chart := (&Overview{Usage: u, Days: days, Now: now, View: view}).Chart()
	if chart.Days != 30 || chart.Width != 30*chartSlot || len(chart.Rows) != 22 || len(chart.Layers) != maxSeries {
		t.Fatalf("%d days, %d wide, %d rows, %d layers", chart.Days, chart.Width, len(chart.Rows), len(chart.Layers))
	}
	keys := plan.KeyCount - 1
	if row := chart.Rows[3]; row.Day != "4\u00a0November" || row.Sum != strconv.Itoa(3*(keys-1)) {
		t.Errorf("a corrected day: %+v", row)
	}
	if last := chart.Rows[21]; last.Sum != strconv.Itoa(21*keys) || last.Over != strconv.Itoa(10*keys) || len(last.Values) != maxSeries {
		t.Errorf("%+v", last)
	}
	if !strings.HasSuffix(chart.Caption, " requests in November 2026. Peak on 30\u00a0November: "+strconv.Itoa(29*keys)+".") {
		t.Error(chart.Caption)
	}
	if last := chart.Layers[maxSeries-1]; last.Class != "others" || last.Name != "Others" {
		t.Errorf("%+v", last)
	}

	// The last days end today, and days before them are left out.
	view = DefaultView()
	view.Set("range", "7")
	chart = (&Overview{Usage: u, Days: days, Now: now, View: view}).Chart()
	if len(chart.Rows) != 7 || chart.Rows[0].Day != "16\u00a0November" || chart.Rows[6].Day != "22\u00a0November" || chart.Rows[0].Sum != strconv.Itoa(15*keys) {
		t.Errorf("%+v", chart.Rows)
	}
	if chart := (&Overview{Usage: u, Now: now, View: view}).Chart(); chart != nil {
		t.Errorf("a chart of nothing: %+v", chart)
	}
}

func TestBarsStandOnEachOtherAndEndAtTheirSum(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	view := DefaultView()
	view.Set("range", "7")
	first, _ := view.Span(now)
	values := map[uint32][]int64{uint32(plan.PastesGet): {10, 0, 1}, uint32(plan.LiteGet): {30, 0, 1_000_000}}
	chart := (&Overview{Usage: &event.UsageAnswer{}, Days: usedBy(first, false, values), Now: now, View: view}).Chart()
	if got := chart.Scale[0].Text + " to " + chart.Scale[len(chart.Scale)-1].Text; got != "1.5M to 0" {
		t.Errorf("the axis is %s", got)
	}
	// A value of one in a million is still seen, and its bar ends at the top of the picture or below.
	if want := fmt.Sprintf("M%d %dh", 2*chartSlot+(chartSlot-chartBar)/2, chartHigh-chartLeast); !strings.Contains(chart.Layers[0].Path, want) {
		t.Errorf("%s has no %s", chart.Layers[0].Path, want)
	}
	heights := make([]int, 1)
	for range 300 {
		bars([]uint64{1}, 1000, heights)
	}
	if heights[0] != chartHigh {
		t.Errorf("300 small bars are %d high", heights[0])
	}
	if got := bars([]uint64{0, 4}, 4, make([]int, 2)); got != fmt.Sprintf("M%d 0h%dv%dh-%dz", chartSlot+(chartSlot-chartBar)/2, chartBar, chartHigh, chartBar) {
		t.Errorf("the largest value is %s", got)
	}
}

func TestTheAxisHasRoundNumbers(t *testing.T) {
	for largest, want := range map[uint64][2]uint64{
		0: {1, 4}, 1: {1, 4}, 4: {1, 4}, 5: {2, 6}, 8: {2, 8}, 9: {5, 10}, 20: {5, 20}, 21: {10, 30}, 40: {10, 40}, 41: {20, 60}, 999: {500, 1000}, 1000: {500, 1000}, 2001: {1000, 3000},
	} {
		if step, top := scale(largest); step != want[0] || top != want[1] {
			t.Errorf("of %d: every %d up to %d, want %v", largest, step, top, want)
		}
	}
	for _, largest := range []uint64{math.MaxInt64, math.MaxUint64} {
		step, top := scale(largest)
		if n := top / step; n < 1 || n > chartTicks {
			t.Errorf("%d: %d ticks", largest, n)
		}
	}
	requests, credits := View{}, View{Credits: true}
	for n, want := range map[uint64]string{0: "0", 5: "5", 9999: "9,999", 10_000: "10K", 12_500: "12.5K", 10_050: "10,050", 10_000_000: "10M", 2_500_000: "2.5M", 20_000_000_000: "20B"} {
		if got := requests.tick(n, 1); got != want {
			t.Errorf("%d requests: %s, want %s", n, got, want)
		}
	}
	for _, test := range []struct {
		n, step uint64
		want    string
	}{{0, 50_000, "0"}, {1, 1, "0.000001"}, {100_000, 50_000, "0.10"}, {1_500_000, 500_000, "1.5"}, {2_000_000_000, 1_000_000_000, "2,000"}, {2_000_000, 500_000, "2.0"}} {
		if got := credits.tick(test.n, test.step); got != test.want {
			t.Errorf("%d of %d micro-credits: %s, want %s", test.n, test.step, got, test.want)
		}
	}
}

// TestAChartHasAFewSeries: up to maxSeries keys have their own, and of more the smallest are one.
func TestAChartHasAFewSeries(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, n := range []int{1, maxSeries, maxSeries + 1, 60} {
		view := DefaultView()
		view.ByKey = true
		first, _ := view.Span(now)
		values, sum := map[uint32][]int64{}, int64(0)
		for id := range n {
			values[uint32(id)] = []int64{int64(1 + id)}
			sum += int64(1 + id)
		}
		o := &Overview{Usage: &event.UsageAnswer{}, Days: usedBy(first, true, values), Now: now, View: view}
		chart := o.Chart()
		if len(chart.Layers) != min(n, maxSeries) {
			t.Fatalf("%d keys: %d series", n, len(chart.Layers))
		}
		others := chart.Layers[len(chart.Layers)-1].Class == "others"
		if others != (n > maxSeries) || chart.Rows[0].Sum != number(sum) {
			t.Errorf("%d keys: others %v, sum %s", n, others, chart.Rows[0].Sum)
		}
		if n == 60 && chart.Layers[0].Name != "Key k55" {
			t.Errorf("the largest five begin with %s", chart.Layers[0].Name)
		}
	}
}

func TestNamesOfKeysAreTextAndTellThemApart(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	view := DefaultView()
	view.ByKey = true
	first, _ := view.Span(now)
	o := &Overview{
		Usage: &event.UsageAnswer{Keys: []*event.ApiKey{{Number: 0}, {Number: 1, Name: hostile}, {Number: 2, Name: "ci"}, {Number: 3, Name: "ci"}}},
		Days:  usedBy(first, true, map[uint32][]int64{0: {1}, 1: {1}, 2: {1}, 3: {1}, 9: {1}}), Now: now, View: view,
	}
	var names []string
	for _, l := range o.Chart().Layers {
		names = append(names, l.Name)
	}
	if want := []string{"Default key", hostile, "ci (k2)", "ci (k3)", "Key k9"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	body, _ := shown(t, func(ctx *fiber.Ctx) error { return New(pages.New()).Overview(ctx, 200, o) })
	if strings.Contains(body, "<script>alert") || strings.Contains(body, `" onload`) || !strings.Contains(body, "&lt;script&gt;alert") {
		t.Error("a name is not text")
	}
}

func TestAViewIsItsAddress(t *testing.T) {
	for _, test := range []struct{ name, text, query string }{
		{"range", "7", "range=7"},
		{"range", "30", ""},
		{"range", "90", "range=90"},
		{"range", "2026-11", "range=2026-11"},
		{"range", "1970-01", "range=1970-01"},
		{"range", "9999-12", "range=9999-12"},
		{"of", "credits", "of=credits"},
		{"of", "requests", ""},
		{"by", "key", "by=key"},
		{"by", "quotaKey", ""},
	} {
		v := DefaultView()
		if problem := v.Set(test.name, test.text); problem != "" || v.Query().Encode() != test.query {
			t.Errorf("%s=%s: %q, %s", test.name, test.text, problem, v.Query().Encode())
		}
		first, last := v.Span(time.Date(2026, 11, 22, 23, 59, 0, 0, time.UTC))
		if last.Before(first) || last.Sub(first) >= 90*24*time.Hour {
			t.Errorf("%s=%s: %v to %v", test.name, test.text, first, last)
		}
	}
	for _, test := range [][2]string{{"range", "8"}, {"range", "0"}, {"range", "-7"}, {"range", "1969-12"}, {"range", "2026-13"}, {"range", "10000-01"}, {"range", hostile}, {"of", "money"}, {"by", "day"}, {"by", "quotakey"}} {
		v := DefaultView()
		if problem := v.Set(test[0], test[1]); problem == "" || v != DefaultView() {
			t.Errorf("%s=%s: %q, %+v", test[0], test[1], problem, v)
		}
	}
}

// TestAMonthLeadsToTheMonthsBesideIt, as far as there is usage.
func TestAMonthLeadsToTheMonthsBesideIt(t *testing.T) {
	now, u, days := month()
	u.CreatedMs = time.Date(2026, 9, 30, 0, 0, 0, 0, time.UTC).UnixMilli()
	o := &Overview{Usage: u, Days: days, Now: now, View: DefaultView()}
	for text, want := range map[string]string{
		"30":      "7 days, 30 days*, 90 days, November\u00a02026",
		"2026-11": "7 days, 30 days, 90 days, ←\u00a0October\u00a02026, November\u00a02026*",
		"2026-10": "7 days, 30 days, 90 days, ←\u00a0September\u00a02026, October\u00a02026*, November\u00a02026\u00a0→",
		"2026-09": "7 days, 30 days, 90 days, September\u00a02026*, October\u00a02026\u00a0→",
	} {
		o.View.Set("range", text)
		var got []string
		for _, l := range o.Ranges() {
			if l.Current {
				l.Name += "*"
			}
			got = append(got, l.Name)
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %s", text, strings.Join(got, ", "))
		}
	}
	u.CreatedMs, days.SinceMs = 0, 0 // days are kept for 400 days
	o.View.Set("range", "2025-10")
	if got := o.Ranges()[3].Name; got != "October\u00a02025" {
		t.Errorf("the oldest month has %s before it", got)
	}
}

func TestUnusedQuotasAreFoldedAway(t *testing.T) {
	now, u, days := month()
	u.Usage[0].Used, u.Usage[1].Used, u.Usage[1].Limit = 0, 0, 0
	o := &Overview{Usage: u, Days: days, Now: now, View: DefaultView()}
	if len(o.Unused()) != 1 || len(o.Missing()) != 1 || len(o.Rows()) != plan.KeyCount-3 || o.Unused()[0].Key != plan.QuotaKey(u.Usage[0].QuotaKey).String() {
		t.Errorf("%d rows, %v unused, %v missing", len(o.Rows()), o.Unused(), o.Missing())
	}
}
