package console

import (
	"math/bits"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

const (
	dayMs      = 24 * 60 * 60 * 1000
	burnDays   = 7                  // that the burn rate averages, including today
	longestMs  = 730 * int64(dayMs) // a forecast of more means nothing
	daysKept   = 400                // of usage by day; docs/api.md, Limits
	barWidth   = 1000               // of the view box of a bar
	dateFormat = "2\u00a0January"
)

// Overview is the overview page: the account and its current month.
type Overview struct {
	Holder     Holder
	Usage      *event.UsageAnswer     // with its keys
	View       View                   // of the chart
	Days       *event.UsageDaysAnswer // of the view
	Recent     *event.UsageDaysAnswer // since BurnFrom
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
		template: "overview", title: "Overview", section: Path, done: o.Done, status: status, live: true, script: "chart.js", styles: []string{"chart"}, data: o,
	})
}

// Usage answers with the live part of the overview.
func (c *Console) Usage(ctx *fiber.Ctx, o *Overview) error {
	return c.fragment(ctx, "usage", o)
}

// Tier is the name of the plan.
func (o *Overview) Tier() string { return plan.Tier(o.Usage.Tier).Title(o.Usage.Plan) }

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
	Key, About, Used, Limit, Left, Overage string
	Spent                                  uint64 // micro-credits
	Bar                                    *bar   // nil without a limit
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
func part(of, whole uint64, size int) int { //nolint:unparam // bars and charts have the same size by chance
	if of == 0 || whole == 0 {
		return 0
	}
	high, low := bits.Mul64(min(of, whole), num.Uint64(size))
	quotient, _ := bits.Div64(high, low, whole)
	return max(1, num.Int(quotient))
}

func rowOf(u *event.KeyUsage) row {
	key := plan.QuotaKey(u.QuotaKey)
	return row{
		Key: key.String(), About: pages.AboutKey(key), Bar: barOf(u),
		Used: number(u.Used), Limit: limit(u.Limit), Left: limit(u.Remaining), Overage: number(u.Overage), Spent: u.SpentMicros,
	}
}

// Rows are the usage per quota key, of those that were used.
func (o *Overview) Rows() []row {
	return o.rows(func(u *event.KeyUsage) bool { return u.Used > 0 })
}

// Unused are the other quota keys of the plan.
func (o *Overview) Unused() []row {
	return o.rows(func(u *event.KeyUsage) bool { return u.Used == 0 && u.Limit != 0 })
}

// Missing are the quota keys that the plan doesn't include.
func (o *Overview) Missing() []row {
	return o.rows(func(u *event.KeyUsage) bool { return u.Used == 0 && u.Limit == 0 })
}

func (o *Overview) rows(which func(*event.KeyUsage) bool) (out []row) {
	for _, u := range o.Usage.Usage {
		if which(u) {
			out = append(out, rowOf(u))
		}
	}
	return out
}

// Ranges are the views of other days.
func (o *Overview) Ranges() []pages.Link {
	earliest := max(o.Usage.CreatedMs, o.Days.GetSinceMs(), o.Now.AddDate(0, 0, 1-daysKept).UnixMilli())
	return o.View.ranges(o.Now, firstOfMonth(utc(earliest)))
}

// UsagePath is the address of the live part with the view.
func (o *Overview) UsagePath() string { return address(UsagePath, o.View.Query()) }

// day is the usage of a day.
type day struct {
	start         time.Time
	used, overage uint64
	spentMicros   uint64
}

// days lists the days from one to another, both included.
func (o *Overview) days(answer *event.UsageDaysAnswer, from, to time.Time) []day {
	known := make(map[int64]*event.UsageDay, len(answer.GetDays()))
	for _, d := range answer.GetDays() {
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

// Burn is the rate at which credits are spent.
type Burn struct {
	PerDay uint64 // micro-credits
	Until  string // when the balance runs out at that rate: a day or a month; empty where a date would mean nothing
}

// Burn is the average of the last days; nil if nothing was spent.
func (o *Overview) Burn() *Burn {
	from := BurnFrom(o.Now)
	for _, began := range []int64{o.Usage.CreatedMs, o.Recent.GetSinceMs()} {
		if day := utc(began).Truncate(dayMs * time.Millisecond); day.After(from) {
			from = day
		}
	}
	var spent uint64
	for _, d := range o.days(o.Recent, from, o.Now) {
		spent += d.spentMicros
	}
	if spent == 0 {
		return nil
	}
	elapsed := max(o.Now.Sub(from).Milliseconds(), dayMs)
	return &Burn{PerDay: muldiv(spent, dayMs, uint64(elapsed)), Until: lastsUntil(o.Now, uint64(max(0, o.Usage.BalanceMicros)), spent, elapsed)}
}

// lastsUntil is the day, or for more than two months the month, until which a balance lasts that loses spent in elapsedMs.
func lastsUntil(now time.Time, balance, spent uint64, elapsedMs int64) string {
	left := muldiv(balance, num.Uint64(elapsedMs), spent)
	if balance == 0 || left > uint64(longestMs) {
		return ""
	}
	end := now.UTC().Add(time.Duration(left) * time.Millisecond)
	switch {
	case left > 60*dayMs:
		return end.Format("January\u00a02006")
	case end.Year() != now.UTC().Year():
		return end.Format(dateFormat + "\u00a02006")
	}
	return end.Format(dateFormat)
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
	Amount, Spent uint64 // micro-credits
	Period        string
	ResetMs       int64 // 0 for a total cap, which never resets
	Bar           *bar
}

func capOf(c *event.CapStatus) *Cap {
	if c == nil {
		return nil
	}
	amount := c.Cap.GetAmountMicros()
	out := &Cap{Amount: amount, Spent: c.SpentMicros, ResetMs: c.ResetMs, Period: periodName(c.Cap.GetPeriod())}
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
