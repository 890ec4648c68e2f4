package accounts

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/pkg/apikey"
	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
	"quire.dev/pkg/plan"
	"quire.dev/services/edge/internal/endpoint"
	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

const (
	MostDays   = 400 // of a query, and as long as days are kept
	dateFormat = time.DateOnly
	daySeconds = 24 * 60 * 60
)

type usageDaysView struct {
	endpoint.Success
	Days  []usageDayView `json:"days"`
	Since *string        `json:"since"` // null: nothing is counted by day yet
}

type usageDayView struct {
	Day          string  `json:"day"`
	QuotaKey     *string `json:"quotaKey"` // null: all keys
	Key          *string `json:"key"`      // null: all keys
	Used         int64   `json:"used"`
	Overage      int64   `json:"overage"`
	CreditsSpent string  `json:"creditsSpent"`
}

// DaysBy says how to split the usage of a day.
type DaysBy struct{ QuotaKey, Key bool }

// usageDays answers with the usage of the account by day.
func (s *Accounts) usageDays(c *endpoint.Call) error {
	var from, to time.Time
	by := DaysBy{QuotaKey: true, Key: true}
	err := input.QueryFields(c.Ctx, input.Fields{
		"from": input.To(&from, dateField), "to": input.To(&to, dateField), "by": input.To(&by, daysByField),
	}.Set)
	if err != nil {
		return err
	}
	if to.IsZero() {
		to = s.Now().UTC().Truncate(24 * time.Hour)
	}
	if from.IsZero() {
		from = time.Date(to.Year(), to.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	first, last := DayNumber(from), DayNumber(to)
	switch {
	case last < first:
		return httperr.InvalidField("from", "must not be after to")
	case last-first >= MostDays:
		return httperr.OverLimit("from", MostDays, "must be at most 399 days before to")
	}
	if err := s.CheckHolder(c); err != nil {
		return err
	}
	a, err := s.DaysOf(c.Who.Account, first, last)
	if err != nil {
		return err
	}
	out := ViewDays(a, by)
	if !wantsCSV(c) {
		return s.JSON(c.Ctx, fiber.StatusOK, out)
	}
	records := make([][]string, 0, len(out.Days))
	for _, d := range out.Days {
		records = append(records, []string{
			d.Day, endpoint.Optional(d.QuotaKey), endpoint.Optional(d.Key), strconv.FormatInt(d.Used, 10), strconv.FormatInt(d.Overage, 10), d.CreditsSpent,
		})
	}
	name := "usage-" + from.Format(dateFormat) + "-" + to.Format(dateFormat) + ".csv"
	return sendCSV(c, name, []string{"day", "quotaKey", "key", "used", "overage", "creditsSpent"}, records)
}

// DaysOf returns the usage of an account from the first day to the last, inclusive.
func (s *Accounts) DaysOf(account event.AccountID, first, last int64) (*event.UsageDaysAnswer, error) {
	a, err := s.Look(account, &event.Query{Query: &event.Query_UsageDays{UsageDays: &event.UsageDaysQuery{
		FromDay: num.Uint32(first), ToDay: num.Uint32(last),
	}}})
	if err != nil {
		return nil, err
	}
	if a.GetUsageDays() == nil {
		return nil, endpoint.Unavailable(endpoint.ErrQueryAnswer)
	}
	return a.GetUsageDays(), nil
}

// dateField parses a day like 2026-11-21.
func dateField(name string, v input.Value) (time.Time, error) {
	day, err := time.Parse(dateFormat, string(v.Text))
	if err != nil || day.Year() < 1970 {
		return time.Time{}, httperr.InvalidField(name, "must be a day like 2026-11-21")
	}
	return day, nil
}

func DayNumber(day time.Time) int64 { return day.Unix() / daySeconds }

// daysByField parses how to split the usage of a day: quotaKey, key, both, or day for neither.
func daysByField(name string, v input.Value) (by DaysBy, err error) {
	for part := range strings.SplitSeq(string(v.Text), ",") {
		switch part {
		case "quotaKey":
			by.QuotaKey = true
		case "key":
			by.Key = true
		case "day":
		default:
			return by, httperr.InvalidField(name, "must be quotaKey, key, both separated by a comma, or day")
		}
	}
	return by, nil
}

// ViewDays sums over whatever the query does not split by.
func ViewDays(a *event.UsageDaysAnswer, by DaysBy) usageDaysView {
	out := usageDaysView{Success: endpoint.Succeeded(), Days: make([]usageDayView, 0, len(a.Days))}
	if a.SinceMs != 0 {
		out.Since = new(endpoint.FormatTime(a.SinceMs))
	}
	type row struct{ quotaKey, key uint32 }
	for _, d := range a.Days {
		sums := map[row]*event.DayUsage{}
		for _, u := range d.Usage {
			var at row
			if by.QuotaKey {
				at.quotaKey = u.QuotaKey
			}
			if by.Key {
				at.key = u.Key
			}
			sum := sums[at]
			if sum == nil {
				sum = &event.DayUsage{}
				sums[at] = sum
			}
			sum.Used, sum.Overage, sum.SpentMicros = sum.Used+u.Used, sum.Overage+u.Overage, sum.SpentMicros+u.SpentMicros
		}
		for _, at := range slices.SortedFunc(maps.Keys(sums), func(x, y row) int {
			return cmp.Or(cmp.Compare(x.quotaKey, y.quotaKey), cmp.Compare(x.key, y.key))
		}) {
			sum := sums[at]
			v := usageDayView{
				Day:  dayText(d.Day),
				Used: sum.Used, Overage: sum.Overage, CreditsSpent: plan.Credits(sum.SpentMicros),
			}
			if by.QuotaKey {
				v.QuotaKey = new(plan.QuotaKey(at.quotaKey).String())
			}
			if by.Key {
				v.Key = new(apikey.ID(at.key))
			}
			out.Days = append(out.Days, v)
		}
	}
	return out
}

// dayText formats a day.
func dayText(number uint32) string {
	return time.Unix(int64(number)*daySeconds, 0).UTC().Format(dateFormat)
}
