package console

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

const (
	chartSlot   = 20 // of a day in the view box of the chart
	chartBar    = 14 // of the bar in it
	chartHigh   = 1000
	chartLeast  = 6 // height of the smallest value, so that it stays visible
	chartTicks  = 4 // at most, above zero
	maxSeries   = 6 // with the one of all others
	monthFormat = "2006-01"
)

// View selects what the chart of the overview shows. The zero View is invalid; start from DefaultView.
type View struct {
	Days    int       // up to today; 0 for a month
	Month   time.Time // its first day, UTC
	Credits bool      // instead of requests
	ByKey   bool      // split by API key instead of quota key
}

// DefaultView is the requests of the last 30 days by quota key.
func DefaultView() View { return View{Days: 30} }

// ViewNames are the parameters of a view in the address of the overview.
func ViewNames() []string { return []string{"range", "of", "by"} }

// Set sets a parameter of the view. If the text is invalid, it returns the rest of a sentence that begins with the name.
func (v *View) Set(name, text string) (problem string) {
	switch name + "=" + text {
	case "range=7", "range=30", "range=90":
		v.Days, _ = strconv.Atoi(text)
		v.Month = time.Time{}
	case "of=requests", "of=credits":
		v.Credits = text == "credits"
	case "by=quotaKey", "by=key":
		v.ByKey = text == "key"
	default:
		switch name {
		case "of":
			return "must be requests or credits"
		case "by":
			return "must be quotaKey or key"
		}
		month, err := time.Parse(monthFormat, text)
		if err != nil || month.Year() < 1970 {
			return "must be 7, 30, 90 or a month like 2026-11"
		}
		v.Days, v.Month = 0, month
	}
	return ""
}

// Span is the first and the last day of the view, in UTC.
func (v View) Span(now time.Time) (first, last time.Time) {
	if v.Days == 0 {
		return v.Month, v.Month.AddDate(0, 1, -1)
	}
	today := now.UTC().Truncate(dayMs * time.Millisecond)
	return today.AddDate(0, 0, 1-v.Days), today
}

// Query are the parameters of the view that are not the defaults.
func (v View) Query() url.Values {
	out := url.Values{}
	if d := DefaultView(); v.Days != d.Days {
		out.Set("range", v.rangeName())
	}
	if v.Credits {
		out.Set("of", "credits")
	}
	if v.ByKey {
		out.Set("by", "key")
	}
	return out
}

func (v View) rangeName() string {
	if v.Days == 0 {
		return v.Month.Format(monthFormat)
	}
	return strconv.Itoa(v.Days)
}

// link is the link to another view.
func (v View) link(name string, to View) pages.Link {
	return pages.Link{Name: name, Path: address(Path, to.Query()), Current: v == to}
}

// Measures are the views of requests and of credits.
func (v View) Measures() []pages.Link {
	requests, credits := v, v
	requests.Credits, credits.Credits = false, true
	return []pages.Link{v.link(requests.unit(), requests), v.link(credits.unit(), credits)}
}

// Splits are the views by quota key and by API key.
func (v View) Splits() []pages.Link {
	quota, key := v, v
	quota.ByKey, key.ByKey = false, true
	return []pages.Link{v.link("By quota key", quota), v.link("By API key", key)}
}

// ranges are the views of other days: the last ones, the current month, and the months beside the one that is shown. earliest
// is the first month with usage.
func (v View) ranges(now, earliest time.Time) (out []pages.Link) {
	for _, n := range []int{7, 30, 90} {
		to := v
		to.Days, to.Month = n, time.Time{}
		out = append(out, v.link(strconv.Itoa(n)+" days", to))
	}
	month := func(at time.Time, before, after string) {
		to := v
		to.Days, to.Month = 0, at
		out = append(out, v.link(before+at.Format("January\u00a02006")+after, to))
	}
	current := firstOfMonth(now)
	if v.Days != 0 {
		month(current, "", "")
		return out
	}
	if v.Month.After(earliest) {
		month(v.Month.AddDate(0, -1, 0), "←\u00a0", "")
	}
	month(v.Month, "", "")
	if v.Month.Before(current) {
		month(v.Month.AddDate(0, 1, 0), "", "\u00a0→")
	}
	return out
}

func firstOfMonth(t time.Time) time.Time {
	return time.Date(t.UTC().Year(), t.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
}

// amount formats a value of the chart.
func (v View) amount(n uint64) string {
	if v.Credits {
		return pages.Credits(n)
	}
	return number(n)
}

// series is a part of the usage: of a quota key or an API key, by day.
type series struct {
	id     uint32
	name   string
	other  bool // all that have no series of their own
	values []uint64
	sum    uint64
}

// valueOf is the part of a day's usage that the view shows.
func (v View) valueOf(u *event.DayUsage) int64 {
	if v.Credits {
		return u.SpentMicros
	}
	return u.Used
}

// split divides the usage of the days from first on into series, maxSeries at most: the smallest ones are one series.
func (v View) split(answer *event.UsageDaysAnswer, first time.Time, days int, name func(id uint32) string) []series {
	byID := map[uint32][]int64{}
	for _, d := range answer.GetDays() {
		at := int64(d.Day) - first.Unix()/(dayMs/1000)
		if at < 0 || at >= int64(days) {
			continue
		}
		for _, u := range d.Usage {
			id := u.QuotaKey
			if v.ByKey {
				id = u.Key
			}
			if byID[id] == nil {
				byID[id] = make([]int64, days)
			}
			byID[id][at] += v.valueOf(u)
		}
	}
	var out []series
	for id, values := range byID {
		s := series{id: id, name: name(id), values: make([]uint64, days)}
		for i, n := range values {
			s.values[i] = uint64(max(0, n)) // a day may be negative until what a correction corrects is written
			s.sum += s.values[i]
		}
		if s.sum > 0 {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b series) int { return cmp.Or(cmp.Compare(b.sum, a.sum), cmp.Compare(a.id, b.id)) })
	other := series{name: "Others", other: true, values: make([]uint64, days)}
	if len(out) > maxSeries {
		for _, s := range out[maxSeries-1:] {
			other.sum += s.sum
			for i, n := range s.values {
				other.values[i] += n
			}
		}
		out = out[:maxSeries-1]
	}
	// In the order of their ids, series keep their colours while a live chart grows.
	slices.SortFunc(out, func(a, b series) int { return cmp.Compare(a.id, b.id) })
	if other.sum > 0 {
		out = append(out, other)
	}
	return out
}

// seriesName names a quota key or an API key. The names of API keys need not differ, so those that don't have their ids beside.
func (o *Overview) seriesName() func(id uint32) string {
	if !o.View.ByKey {
		return func(id uint32) string {
			return cmp.Or(pages.AboutKey(plan.QuotaKey(id)), plan.QuotaKey(id).String())
		}
	}
	labels, count := map[uint32]string{}, map[string]int{}
	for _, k := range o.Usage.Keys {
		labels[k.Number] = Key{ApiKey: k}.Label()
		count[labels[k.Number]]++
	}
	return func(id uint32) string {
		label, known := labels[id]
		switch {
		case !known:
			return "Key " + apikey.ID(id)
		case count[label] > 1:
			return label + " (" + apikey.ID(id) + ")"
		}
		return label
	}
}

// Chart is usage by day, as a picture and as a table.
type Chart struct {
	Days        int
	Width, High int    // of the view box
	Label       string // describes the picture
	Caption     string
	Scale       []Tick // from the top down to zero
	Layers      []Layer
	Labels      []DayLabel
	Rows        []DayRow // up to today
	Over        bool     // rows say what was over quota
}

// Tick is a value of the y-axis at a distance from the top in percent.
type Tick struct{ Text, Y string }

// Layer is a series: a path of bars that stand on the bars of the layers below.
type Layer struct {
	Class, Name, Sum, Path string
}

// DayLabel is a label of the x-axis. Narrow screens leave out the minor ones.
type DayLabel struct {
	X, Text string
	Minor   bool
	Last    bool // ends at its day, so that it does not stick out
}

// DayRow is a day in the table, as text: a value for each layer, their sum, and how much of that was over quota.
type DayRow struct {
	Day       string
	Values    []string
	Sum, Over string
}

// Chart is the chart of the view; nil if there is nothing to show.
func (o *Overview) Chart() *Chart {
	v := o.View
	first, last := v.Span(o.Now)
	days := o.days(o.Days, first, last)
	all := v.split(o.Days, first, len(days), o.seriesName())
	sums, sum, most := make([]uint64, len(days)), uint64(0), 0
	for _, s := range all {
		sum += s.sum
		for i, n := range s.values {
			sums[i] += n
		}
	}
	if sum == 0 {
		return nil
	}
	for i, n := range sums {
		if n > sums[most] {
			most = i
		}
	}
	step, top := scale(sums[most])
	out := &Chart{
		Days: len(days), Width: len(days) * chartSlot, High: chartHigh, Over: !v.Credits, Scale: v.ticks(step, top), Labels: dayLabels(first, len(days), v.Days == 0),
		Label:   fmt.Sprintf("%s per day %s, %s to %s. The table below has the values.", v.unit(), v.by(), first.Format(dateFormat), last.Format(dateFormat)),
		Caption: fmt.Sprintf("%s %s. Peak on %s: %s.", v.total(sum), v.Period(), days[most].start.Format(dateFormat), v.amount(sums[most])),
	}
	heights := make([]int, len(days))
	for i, s := range all {
		class := "s" + strconv.Itoa(i+1)
		if s.other {
			class = "others"
		}
		out.Layers = append(out.Layers, Layer{Class: class, Name: s.name, Sum: v.amount(s.sum), Path: bars(s.values, top, heights)})
	}
	for i, d := range days {
		if d.start.After(o.Now) {
			break
		}
		row := DayRow{Day: d.start.Format(dateFormat), Sum: v.amount(sums[i]), Over: number(min(d.overage, sums[i]))}
		for _, s := range all {
			row.Values = append(row.Values, v.amount(s.values[i]))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

func (v View) unit() string {
	if v.Credits {
		return "Credits"
	}
	return "Requests"
}

func (v View) by() string {
	if v.ByKey {
		return "by API key"
	}
	return "by quota key"
}

// Period is the time of the view in words, at the end of a sentence.
func (v View) Period() string {
	if v.Days == 0 {
		return "in " + v.Month.Format("January 2006")
	}
	return "in the last " + strconv.Itoa(v.Days) + " days"
}

// Nothing says that the view is empty.
func (v View) Nothing() string {
	if v.Credits {
		return "No credits spent " + v.Period() + "."
	}
	return "No requests " + v.Period() + "."
}

// total is a value with its unit.
func (v View) total(n uint64) string {
	switch {
	case v.Credits:
		return v.amount(n) + " credits"
	case n == 1:
		return "1 request"
	}
	return v.amount(n) + " requests"
}

// bars is the path of a series. heights are the heights of the bars below; it adds its own.
func bars(values []uint64, top uint64, heights []int) string {
	var path strings.Builder
	for i, n := range values {
		if n == 0 {
			continue
		}
		high := min(max(chartLeast, part(n, top, chartHigh)), chartHigh-heights[i])
		if high <= 0 {
			continue
		}
		heights[i] += high
		fmt.Fprintf(&path, "M%d %dh%dv%dh-%dz", i*chartSlot+(chartSlot-chartBar)/2, chartHigh-heights[i], chartBar, high, chartBar)
	}
	return path.String()
}

// scale is the distance between the ticks of an axis, which is 1, 2 or 5 times a power of ten, and the value at its top. The
// axis has chartTicks of them at most, and goes up to chartTicks at least: one request is no tower.
func scale(largest uint64) (step, top uint64) {
	largest = max(largest, chartTicks)
	for base := uint64(1); ; base *= 10 {
		for _, factor := range []uint64{1, 2, 5} {
			step = base * factor
			if n := (largest-1)/step + 1; n <= chartTicks {
				return step, muldiv(step, n, 1)
			}
		}
	}
}

// ticks are the values of the y-axis, from the top down.
func (v View) ticks(step, top uint64) (out []Tick) {
	for n := top / step; ; n-- {
		out = append(out, Tick{Text: v.tick(n*step, step), Y: percent(top/step-n, top/step)})
		if n == 0 {
			return out
		}
	}
}

// tick formats a value of the y-axis, a multiple of step. All have as many places as step.
func (v View) tick(n, step uint64) string {
	if v.Credits && n > 0 {
		places := len(strings.TrimRight(plan.Credits(step), "0")) - len(plan.Credits(step))
		text := credits(n)
		return strings.TrimSuffix(text[:len(text)+places], ".")
	}
	for _, unit := range []struct {
		size uint64
		name string
	}{{1e9, "B"}, {1e6, "M"}, {1e3, "K"}} {
		if n >= max(unit.size, 10_000) && n%(unit.size/10) == 0 {
			return strings.TrimSuffix(number(n/unit.size)+"."+strconv.FormatUint(n%unit.size/(unit.size/10), 10), ".0") + unit.name
		}
	}
	return number(n)
}

// dayLabels label some of the days: of a month from its first day on, otherwise up to today.
func dayLabels(first time.Time, days int, month bool) (out []DayLabel) {
	step := 1
	switch {
	case days > 31:
		step = 15
	case days > 7:
		step = 5
	}
	for i := range days {
		at := days - 1 - i
		if month {
			at = i
		}
		if at%step == 0 {
			out = append(out, DayLabel{X: percent(uint64(2*i+1), uint64(2*days)), Text: first.AddDate(0, 0, i).Format("2\u00a0Jan"), Minor: at/step%2 == 1, Last: step > 1 && i == days-1})
		}
	}
	return out
}

func percent(of, whole uint64) string {
	return strconv.FormatFloat(100*float64(of)/float64(whole), 'f', 2, 64) + "%"
}
