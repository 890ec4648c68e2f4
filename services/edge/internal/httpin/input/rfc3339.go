package input

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// ParseTime parses a time strictly by RFC 3339, 5.6: all digits of each number, "." only before a fraction, an offset within
// ±23:59, and T and Z in either case. The result is in UTC, in the years 0000 to 9999, truncated to nanoseconds. A leap
// second is valid at the end of June or December since 1972 (RFC 3339, 5.7), and means the second after it, as in Unix time.
func ParseTime(text string) (time.Time, error) {
	p := timeParser{rest: text}
	year := p.number("the year", 4, 0, 9999)
	p.one("-", "the year")
	month := p.number("the month", 2, 1, 12)
	p.one("-", "the month")
	day := p.number("the day", 2, 1, daysOf(year, time.Month(month)))
	p.one("Tt", "the day")
	hour := p.number("the hour", 2, 0, 23)
	p.one(":", "the hour")
	minute := p.number("the minute", 2, 0, 59)
	p.one(":", "the minute")
	second := p.number("the second", 2, 0, 60)
	part := p.fraction()
	offset := p.offset()
	if p.err == nil && p.rest != "" {
		p.err = errors.New("nothing may follow the offset")
	}
	if p.err != nil {
		return time.Time{}, p.err
	}
	t := time.Date(year, time.Month(month), day, hour, minute, 0, 0, time.UTC).Add(-offset)
	if second == 60 && !mayLeap(t) {
		return time.Time{}, errors.New("a second 60 exists at 23:59 UTC on June 30 and December 31 only")
	}
	t = t.Add(time.Duration(second)*time.Second + part)
	if t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, errors.New("the year in UTC must be 0000 to 9999")
	}
	return t, nil
}

func daysOf(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// mayLeap reports whether the minute that begins at t may have a second 60. Which of them have one is announced half a year
// ahead.
func mayLeap(t time.Time) bool {
	_, month, day := t.Date()
	return t.Hour() == 23 && t.Minute() == 59 && t.Year() >= 1972 && (month == time.June && day == 30 || month == time.December && day == 31)
}

// timeParser parses a time from left to right. After an error it parses nothing more.
type timeParser struct {
	rest string
	err  error
}

func (p *timeParser) fail(format string, args ...any) {
	if p.err == nil {
		p.rest, p.err = "", fmt.Errorf(format, args...)
	}
}

// number parses a number with a fixed count of digits.
func (p *timeParser) number(what string, digits, least, most int) int {
	n, ok := 0, len(p.rest) >= digits
	for i := 0; ok && i < digits; i++ {
		c := p.rest[i]
		n, ok = 10*n+int(c-'0'), c >= '0' && c <= '9'
	}
	if !ok || n < least || n > most {
		p.fail("%s must be %0*d to %0*d", what, digits, least, digits, most)
		return least
	}
	p.rest = p.rest[digits:]
	return n
}

// one parses one of the characters in of.
func (p *timeParser) one(of, after string) {
	if p.rest == "" || !strings.Contains(of, p.rest[:1]) {
		p.fail("%q must follow %s", of[:1], after)
		return
	}
	p.rest = p.rest[1:]
}

// fraction parses the optional fraction of a second.
func (p *timeParser) fraction() time.Duration {
	digits, ok := strings.CutPrefix(p.rest, ".")
	if !ok {
		return 0
	}
	n, part, unit := 0, time.Duration(0), time.Second
	for ; n < len(digits) && digits[n] >= '0' && digits[n] <= '9'; n++ {
		unit /= 10 // 0 after the ninth digit
		part += time.Duration(digits[n]-'0') * unit
	}
	if n == 0 {
		p.fail("digits must follow the point")
	} else {
		p.rest = digits[n:]
	}
	return part
}

// offset parses the offset from UTC.
func (p *timeParser) offset() time.Duration {
	if p.rest == "" || !strings.Contains("Zz+-", p.rest[:1]) {
		p.fail("Z or an offset like +02:00 must follow the second")
		return 0
	}
	sign := p.rest[0]
	p.rest = p.rest[1:]
	if sign == 'Z' || sign == 'z' {
		return 0
	}
	offset := time.Duration(p.number("the offset's hour", 2, 0, 23)) * time.Hour
	p.one(":", "the offset's hour")
	offset += time.Duration(p.number("the offset's minute", 2, 0, 59)) * time.Minute
	if sign == '-' {
		return -offset
	}
	return offset
}
