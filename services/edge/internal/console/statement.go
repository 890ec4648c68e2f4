package console

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// Statement is the statement of a month.
type Statement struct {
	Holder  Holder
	Number  string // as the API shows it
	Start   time.Time
	Answer  *event.StatementAnswer
	Created int64 // when the account was created, in Unix milliseconds
	Present int64 // start of the current month, in Unix milliseconds

	Operator Operator
}

// Operator is who runs the service, and sends its statements. The zero value is nobody that is known.
type Operator struct {
	Name    string
	Address string // its lines are separated by |
}

// Lines are the lines of the address.
func (o Operator) Lines() (lines []string) {
	for line := range strings.SplitSeq(o.Address, "|") {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// TablePath is the statement's lines as CSV.
func (s *Statement) TablePath() string {
	return StatementPath + "/" + s.Start.Format("2006-01") + "/lines.csv"
}

// Statement shows a statement.
func (c *Console) Statement(ctx *fiber.Ctx, s *Statement) error {
	return c.render(ctx, page{template: "statement", title: "Statement of " + s.Month(), section: BillingPath, data: s, script: "print.js"})
}

// Month is the month of the statement.
func (s *Statement) Month() string { return s.Start.Format("January 2006") }

// Days are the first and the last day of the month.
func (s *Statement) Days() string {
	const format = "2\u00a0January 2006"
	return s.Start.Format(format) + " to " + s.Start.AddDate(0, 1, -1).Format(format)
}

// Before is the previous month in the form of its statement's path; empty if the account is younger.
func (s *Statement) Before() string {
	if s.Start.UnixMilli() <= s.Created {
		return ""
	}
	return s.Start.AddDate(0, -1, 0).Format("2006-01")
}

// After is the next month in the same form; empty if it hasn't begun.
func (s *Statement) After() string {
	if s.Start.UnixMilli() >= s.Present {
		return ""
	}
	return s.Start.AddDate(0, 1, 0).Format("2006-01")
}

// Tier is the name of the plan.
func (s *Statement) Tier() string { return plan.Tier(s.Answer.Tier).Title(s.Answer.Plan) }

// statementPeriod is a part of the month with one plan and its prices.
type statementPeriod struct {
	StartMs, EndMs int64
	Tier           string
	Fee            string          // of the plan, with its calculation; empty: none
	Lines          []statementLine // without unused quota keys
}

// statementLine is a line of a statement as text. Price is empty if requests over quota aren't sold.
type statementLine struct {
	Key, About, Limit, Used, Free, Paid, Price, Amount string
}

// Periods are the parts of the month.
func (s *Statement) Periods() (out []statementPeriod) {
	for _, p := range s.Answer.Periods {
		period := statementPeriod{StartMs: p.StartMs, EndMs: p.EndMs, Tier: plan.Tier(p.Tier).Title(p.Plan), Fee: feeOf(p, s.monthSeconds())}
		for _, l := range p.Lines {
			if l.Used == 0 {
				continue
			}
			key := plan.QuotaKey(l.QuotaKey)
			line := statementLine{
				Key: key.String(), About: pages.AboutKey(key), Limit: "unlimited", Used: number(l.Used), Free: number(l.Used - min(l.Paid, l.Used)),
				Paid: number(l.Paid), Amount: credits(l.AmountMicros),
			}
			if l.Limit != plan.Unlimited {
				line.Limit = number(l.Limit)
			}
			if l.Overage {
				line.Price = credits(l.PriceMicros)
			}
			period.Lines = append(period.Lines, line)
		}
		out = append(out, period)
	}
	return out
}

func (s *Statement) monthSeconds() uint64 {
	return uint64(s.Start.AddDate(0, 1, 0).Sub(s.Start).Seconds())
}

// feeOf is the plan's fee in a period, with its calculation.
func feeOf(p *event.StatementPeriod, month uint64) string {
	switch {
	case p.FeeCents == 0:
		return ""
	case p.FeeSeconds == month:
		return usd(p.FeeAmountCents)
	}
	return fmt.Sprintf("%s: %s a month, for %s of %s seconds", usd(p.FeeAmountCents), usd(p.FeeCents), number(p.FeeSeconds), number(month))
}

// Fees are the plan's fees of the month; empty without any.
func (s *Statement) Fees() string {
	if s.Answer.FeesCents == 0 {
		return ""
	}
	return usd(s.Answer.FeesCents)
}

// balanceRow is a change of the balance, or the balance itself.
type balanceRow struct {
	Name, Amount string
	Total        bool
}

// Balance leads from the balance at the month's beginning to the one at its end.
func (s *Statement) Balance() []balanceRow {
	c := s.Answer.Credits
	rows := []balanceRow{
		{"Opening balance", plan.Credits(c.GetOpeningMicros()), true},
		{"Grants and payments", plan.Credits(c.GetGrantedMicros()), false},
		{"Refunds of failed calls", plan.Credits(c.GetRefundedMicros()), false},
		{"Adjustments by an admin", plan.Credits(c.GetAdjustedMicros()), false},
		{"Expired", plan.Credits(-num.Int64(c.GetExpiredMicros())), false},
		{"Charges", plan.Credits(-num.Int64(c.GetChargedMicros())), false},
		{"Closing balance", plan.Credits(c.GetClosingMicros()), true},
	}
	if pending := c.GetPendingMicros(); pending != 0 {
		rows = append(rows, balanceRow{"Pending, for requests in flight", plan.Credits(-pending), false})
	}
	return rows
}

// Requests is the total of all rows.
func (s *Statement) Requests() string {
	var sum uint64
	for _, u := range s.Answer.Usage {
		sum += u.Used
	}
	return number(sum)
}

// Spent is the credits that requests used.
func (s *Statement) Spent() string { return credits(s.Answer.SpentMicros) }

// StorageUSD is the cost of storage.
func (s *Statement) StorageUSD() string { return usd(s.Answer.StorageOverageCents) }

// GBMonthUSD is the price of a GB for a month.
func (s *Statement) GBMonthUSD() string { return usd(s.Answer.StorageCentsPerGbMonth) }

// storageRow is a day's average storage.
type storageRow struct {
	Day     string
	Average uint64 // bytes
}

// StorageDays are the days on which something was stored.
func (s *Statement) StorageDays() (out []storageRow) {
	const dayMillis = 24 * 60 * 60 * 1000
	for _, d := range s.Answer.StorageDays {
		if d.ByteMsHigh >= dayMillis { // negative, after a late correction
			continue
		}
		if average, _ := bits.Div64(d.ByteMsHigh, d.ByteMsLow, dayMillis); average > 0 {
			out = append(out, storageRow{utc(int64(d.Day) * dayMillis).Format("2\u00a0January"), average})
		}
	}
	return out
}

func usd(cents uint64) string { return "$" + plan.Dollars(cents) }
