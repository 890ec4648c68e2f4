package account

import (
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// month is a calendar month in UTC. Its number is year*12 + month-1. start and end are Unix milliseconds; end is the
// next month's start.
type month struct {
	number     uint32
	start, end int64
}

func monthNumber(n uint32) month {
	start := time.Date(int(n/12), time.Month(n%12+1), 1, 0, 0, 0, 0, time.UTC)
	return month{number: n, start: start.UnixMilli(), end: start.AddDate(0, 1, 0).UnixMilli()}
}

func monthOf(millis int64) month {
	t := time.UnixMilli(millis).UTC()
	return monthNumber(event.MonthNumber(t))
}

// at is the month of millis. It is cheap if that is m.
func (m month) at(millis int64) month {
	if millis >= m.start && millis < m.end {
		return m
	}
	return monthOf(millis)
}

func (m month) millis() uint64 { return num.Uint64(m.end - m.start) }

// period is the month's name in the API: "2026-11".
func (m month) period() string {
	return time.UnixMilli(m.start).UTC().Format("2006-01")
}

func parsePeriod(s string) (month, bool) {
	t, err := time.Parse("2006-01", s)
	if err != nil || t.Year() < 1 || len(s) != len("2006-01") {
		return month{}, false
	}
	return monthOf(t.UnixMilli()), true
}
