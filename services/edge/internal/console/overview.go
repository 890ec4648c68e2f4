package console

import (
	"math/bits"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

const (
	dayMs      = 24 * 60 * 60 * 1000
	burnDays   = 7                   // that the burn rate averages, including today
	longestMs  = 3650 * int64(dayMs) // a balance lasting longer gets no date
	barWidth   = 1000                // of the view box of a bar
	chartSlot  = 20                  // of a day in the view box of the chart
	chartBar   = 14                  // of the bar in it
	chartHigh  = 100
	dateFormat = "2\u00a0January"
)

// Overview is the overview page: the account and its current month.
type Overview struct {
	Holder     Holder
	Usage      *event.UsageAnswer     // with its keys
	Days       *event.UsageDaysAnswer // since BurnFrom or the first of the month; nil if unavailable
	Now        time.Time              // of the edge
	UpgradeURL string                 // page to change the plan; empty if not configured
	Key        *Form                  // to create the first API key; nil if one exists
	Done       string                 // see Done
}

// BurnFrom is the first day of the burn rate's average.
func BurnFrom(now time.Time) time.Time {
	return now.UTC().Truncate(dayMs*time.Millisecond).AddDate(0, 0, 1-burnDays)
}

// FirstKey is the form to create the first API key of an account.
func FirstKey(account, once string) *Form {
	return &Form{ID: "key", Action: KeyPath, Account: account, Once: once}
}

// Overview shows the overview page.
func (c *Console) Overview(ctx *fiber.Ctx, status int, o *Overview) error {
	return c.render(ctx, page{
		template: "overview", title: "Overview", section: Path, done: o.Done, status: status, live: true, data: o,
	})
}

// Usage answers with the live part of the overview.
func (c *Console) Usage(ctx *fiber.Ctx, o *Overview) error {
	return c.fragment(ctx, "usage", o)
}

// Tier is the name of the plan.
func (o *Overview) Tier() string { return plan.Tier(o.Usage.Tier).Title() }

// Free reports whether requests of the plan stop at the limit, since it sells none for credits.
func (o *Overview) Free() bool { return plan.Tier(o.Usage.Tier) == plan.Free }

// Month is the current month.
func (o *Overview) Month() string { return utc(o.Usage.PeriodStartMs).Format("January 2006") }

// Period is the current month in the form of its statement's path.
func (o *Overview) Period() string { return utc(o.Usage.PeriodStartMs).Format("2006-01") }

// Renews is the day on which quotas reset.
func (o *Overview) Renews() string { return utc(o.Usage.PeriodEndMs).Format(dateFormat) }

// row is the usage of a quota key as text.
type row struct {
	Key, About, Used, Limit, Left, Overage, Spent string
	Bar                                           *bar // nil without a limit
}

// bar is the widths of a bar, of barWidth in all.
type bar struct{ Within, Beyond int }

func barOf(u *event.KeyUsage) *bar {
	if u.Limit <= 0 {
		return nil
	}
	whole, within := max(uint64(u.Limit), u.Used), min(u.Used, uint64(u.Limit))
	out := &bar{Within: part(within, whole, barWidth)}
	out.Beyond = min(part(u.Used-within, whole, barWidth), barWidth-out.Within)
	return out
}

// part scales a part of a whole to size. It is at least 1 for a nonzero part, so that the part stays visible.
func part(of, whole uint64, size int) int {
	if of == 0 || whole == 0 {
		return 0
	}
	high, low := bits.Mul64(min(of, whole), uint64(size))
	quotient, _ := bits.Div64(high, low, whole)
	return max(1, int(quotient))
}

func rowOf(u *event.KeyUsage) row {
	key := plan.QuotaKey(u.QuotaKey)
	return row{
		Key: key.String(), About: pages.AboutKey(key), Bar: barOf(u),
		Used: number(u.Used), Limit: limit(u.Limit), Left: limit(u.Remaining), Overage: number(u.Overage), Spent: credits(u.SpentMicros),
	}
}

func missing(u *event.KeyUsage) bool { return u.Limit == 0 && u.Used == 0 }

// Rows are the usage per quota key of the plan.
func (o *Overview) Rows() (out []row) {
	for _, u := range o.Usage.Usage {
		if !missing(u) {
			out = append(out, rowOf(u))
		}
	}
	return out
}

// Missing are the quota keys that the plan doesn't include.
func (o *Overview) Missing() (out []row) {
	for _, u := range o.Usage.Usage {
		if missing(u) {
			out = append(out, rowOf(u))
		}
	}
	return out
}

// day is the usage of a day.
type day struct {
	start         time.Time
	used, overage uint64
	spentMicros   uint64
}

// days lists the days from one to another, both included.
func (o *Overview) days(from, to time.Time) []day {
	known := make(map[int64]*event.UsageDay, len(o.Days.GetDays()))
	for _, d := range o.Days.GetDays() {
		known[int64(d.Day)] = d
	}
	var out []day
	for at := from; !at.After(to); at = at.AddDate(0, 0, 1) {
		var used, overage, spent int64 // a day may be negative after a correction
		for _, u := range known[at.UnixMilli()/dayMs].GetUsage() {
			used, overage, spent = used+u.Used, overage+u.Overage, spent+u.SpentMicros
		}
		out = append(out, day{at, uint64(max(0, used)), uint64(max(0, overage)), uint64(max(0, spent))})
	}
	return out
}

// Chart is the month's requests by day; nil if it has none.
func (o *Overview) Chart() *Chart {
	start, end := utc(o.Usage.PeriodStartMs), utc(o.Usage.PeriodEndMs).AddDate(0, 0, -1)
	days := o.days(start, end)
	out := &Chart{Width: len(days) * chartSlot, High: chartHigh, First: start.Format(dateFormat), Last: end.Format(dateFormat)}
	var most, sum uint64
	for _, d := range days {
		sum += d.used
		if d.used > most {
			most, out.MostOn = d.used, d.start.Format(dateFormat)
		}
	}
	if sum == 0 {
		return nil
	}
	out.Most, out.Sum = number(most), requests(sum)
	for i, d := range days {
		if d.used == 0 {
			continue
		}
		name := d.start.Format(dateFormat)
		high := part(d.used, most, chartHigh)
		over := part(min(d.overage, d.used), d.used, high)
		out.Bars = append(out.Bars, chartBarOf(i, high, over, name+": "+requests(d.used)))
		out.Days = append(out.Days, DayRow{name, number(d.used), number(d.overage), credits(d.spentMicros)})
	}
	return out
}

// Chart is a chart of requests by day, as a picture and as a table.
type Chart struct {
	Width, High       int // of the view box
	Bars              []Bar
	Days              []DayRow
	First, Last       string // days
	Most, MostOn, Sum string
}

// Bar is a day in the chart. Its upper part, of height Over, is over quota.
type Bar struct {
	X, Y, Width, High int
	Over              int
	Name              string
}

func chartBarOf(slot, high, over int, name string) Bar {
	return Bar{X: slot*chartSlot + (chartSlot-chartBar)/2, Y: chartHigh - high, Width: chartBar, High: high, Over: over, Name: name}
}

func requests(n uint64) string {
	if n == 1 {
		return "1 request"
	}
	return number(n) + " requests"
}

// DayRow is a day in the table, as text.
type DayRow struct{ Day, Used, Overage, Spent string }

// Burn is the rate at which credits are spent.
type Burn struct {
	PerDay  uint64 // micro-credits
	UntilMs int64  // when the balance runs out at that rate; 0 if not within ten years
}

// Burn is the average of the last days; nil if nothing was spent.
func (o *Overview) Burn() *Burn {
	from := BurnFrom(o.Now)
	for _, began := range []int64{o.Usage.CreatedMs, o.Days.GetSinceMs()} {
		if day := utc(began).Truncate(dayMs * time.Millisecond); day.After(from) {
			from = day
		}
	}
	var spent uint64
	for _, d := range o.days(from, o.Now) {
		spent += d.spentMicros
	}
	if spent == 0 {
		return nil
	}
	elapsed := max(o.Now.Sub(from).Milliseconds(), dayMs)
	return &Burn{PerDay: muldiv(spent, dayMs, uint64(elapsed)), UntilMs: lastsUntil(o.Now, o.Usage.BalanceMicros, spent, elapsed)}
}

func lastsUntil(now time.Time, balance, spent uint64, elapsedMs int64) int64 {
	left := muldiv(balance, uint64(elapsedMs), spent)
	if left > uint64(longestMs) {
		return 0
	}
	return now.UnixMilli() + int64(left)
}

// muldiv is a·b/c, saturated at the largest uint64.
func muldiv(a, b, c uint64) uint64 {
	high, low := bits.Mul64(a, b)
	if high >= c {
		return ^uint64(0)
	}
	out, _ := bits.Div64(high, low, c)
	return out
}

// Cap is the account's spending cap; nil if not set.
func (o *Overview) Cap() *Cap { return capOf(o.Usage.Cap) }

// StorageUSD is the cost of this month's storage so far.
func (o *Overview) StorageUSD() string { return usd(o.Usage.StorageOverageCents) }

// Cap is a spending cap.
type Cap struct {
	Amount, Spent, Period string
	ResetMs               int64 // 0 for a total cap, which never resets
	Bar                   *bar
}

func capOf(c *event.CapStatus) *Cap {
	if c == nil {
		return nil
	}
	amount := c.Cap.GetAmountMicros()
	out := &Cap{Amount: credits(amount), Spent: credits(c.SpentMicros), ResetMs: c.ResetMs, Period: periodName(c.Cap.GetPeriod())}
	if amount > 0 {
		out.Bar = &bar{Within: part(min(c.SpentMicros, amount), amount, barWidth)}
	}
	return out
}

func periodName(p event.CapPeriod) string {
	switch p {
	case event.CapPeriod_CAP_DAY:
		return "per day"
	case event.CapPeriod_CAP_MONTH:
		return "per month"
	}
	return "in total"
}
