package endpoint

import (
	"errors"
	"strconv"
	"time"

	"quire.dev/services/edge/internal/httpin/httperr"
	"quire.dev/services/edge/internal/httpin/input"
)

// Limits of a lifetime: docs/api.md, Limits. A year is 365 days.
const (
	Day             = 24 * time.Hour
	minLifetime     = time.Minute
	MaxLifetime     = 3650 * Day
	KeylessLifetime = 30 * Day
)

// LifetimeField parses expiresIn; 0 is never. For a keyless caller, longest is below MaxLifetime.
func LifetimeField(name string, v input.Value, longest time.Duration) (time.Duration, error) {
	d, ok := parseLifetime(v)
	if !ok {
		return 0, httperr.InvalidField(name, `must be a whole number of seconds, or a number with one of m, h, d, w, y like "10m", or "never"`).
			InForm(name + " must be a time such as 10m, 12h, 7d or 1y, or never.")
	}
	if d == 0 {
		if longest < MaxLifetime {
			return 0, httperr.InvalidField(name, "must not be \"never\" without an API key: at most 30 days").
				InForm(name + " must be at most 30 days without an account.")
		}
		return 0, nil
	}
	if d < minLifetime || d > longest {
		err := httperr.InvalidField(name, "must be between 1 minute and "+lifetimeName(longest))
		if longest < MaxLifetime {
			err = err.InForm(name + " must be between 1 minute and 30 days without an account.")
		}
		return 0, err
	}
	return d, nil
}

func lifetimeName(d time.Duration) string {
	if d == MaxLifetime {
		return "10 years (3650 days)"
	}
	return strconv.Itoa(int(d/Day)) + " days without an API key"
}

// parseLifetime returns 0 for "never", more than MaxLifetime for a number too large for a time.Duration, and a nanosecond for
// 0 and below.
func parseLifetime(v input.Value) (time.Duration, bool) {
	text := string(v.Text)
	unit := time.Second
	switch v.Kind {
	case input.Number:
	case input.String, input.Query:
		if text == "never" {
			return 0, true
		}
		if text == "" {
			return 0, false
		}
		last := text[len(text)-1]
		if u, ok := LifetimeUnit(last); ok {
			unit, text = u, text[:len(text)-1]
		} else if v.Kind == input.String {
			return 0, false
		}
		if text == "" || text[0] == '+' {
			return 0, false
		}
	default:
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && n > int64(MaxLifetime/unit):
		return MaxLifetime + 1, true
	case err != nil:
		return 0, false
	case n <= 0:
		return 1, true
	}
	return time.Duration(n) * unit, true
}

// LifetimeUnit is the unit that the last letter of a lifetime stands for.
func LifetimeUnit(c byte) (time.Duration, bool) {
	switch c {
	case 'm':
		return time.Minute, true
	case 'h':
		return time.Hour, true
	case 'd':
		return Day, true
	case 'w':
		return 7 * Day, true
	case 'y':
		return 365 * Day, true
	}
	return 0, false
}

// InstantField parses expiresAt. The time until then has the limits of expiresIn.
func InstantField(name string, v input.Value, now time.Time, longest time.Duration) (time.Time, error) {
	t, err := input.TimeField(name, v)
	if err != nil {
		return time.Time{}, err
	}
	if left := t.Sub(now); left < minLifetime || left > longest {
		return time.Time{}, httperr.InvalidField(name, "must be between 1 minute and "+lifetimeName(longest)+" from now")
	}
	return t, nil
}
