package console

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/pages"
)

// Statement is the statement of a month.
type Statement struct {
	Holder  Holder
	Start   time.Time
	Answer  *event.StatementAnswer
	Created int64 // when the account was created, in Unix milliseconds
	Present int64 // start of the current month, in Unix milliseconds
}

// Statement shows a statement.
func (c *Console) Statement(ctx *fiber.Ctx, s *Statement) error {
	return c.render(ctx, page{template: "statement", title: "Statement of " + s.Month(), section: BillingPath, holder: s.Holder, data: s})
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
func (s *Statement) Tier() string { return plan.Tier(s.Answer.Tier).Title() }

// Rows are the requests per quota key, without unused ones.
func (s *Statement) Rows() (out []row) {
	for _, u := range s.Answer.Usage {
		if u.Used == 0 {
			continue
		}
		key := plan.QuotaKey(u.QuotaKey)
		out = append(out, row{
			Key: key.String(), About: pages.AboutKey(key), Used: number(u.Used),
			Overage: number(u.Overage), Spent: credits(u.SpentMicros),
		})
	}
	return out
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

func usd(cents uint64) string { return fmt.Sprintf("$%d.%02d", cents/100, cents%100) }
