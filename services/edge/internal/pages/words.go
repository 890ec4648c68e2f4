package pages

import (
	"html/template"
	"strconv"
	"strings"
	"time"

	"quire.dev/pkg/plan"
)

// Functions are the template functions shared with other packages.
func Functions() template.FuncMap {
	return template.FuncMap{"size": Size, "time": timeTag, "exact": exactTag, "number": numberText}
}

// Number formats a whole number with commas between thousands.
func Number(n int64) string { return numberText(n) }

// Credits formats micro-credits for people: to a hundredth, or to two significant digits below a tenth.
func Credits[N int64 | uint64](micros N) string {
	if micros < 0 {
		return "\u2212" + Credits(uint64(-micros))
	}
	return creditsText(uint64(micros))
}

func creditsText(micros uint64) string {
	const hundredth = 10_000
	step := uint64(hundredth)
	for step > 1 && micros < 10*step {
		step /= 10
	}
	rounded := (micros + step/2) / step * step
	whole, rest, _ := strings.Cut(plan.Credits(rounded), ".")
	rest = strings.TrimRight(rest, "0")
	switch {
	case rest == "":
		return withCommas(whole)
	case step == hundredth && len(rest) == 1:
		rest += "0"
	}
	return withCommas(whole) + "." + rest
}

// Duration formats a duration, rounded up to minutes: "2 hours 1 minute".
func Duration(d time.Duration) string {
	minutes := int((d + time.Minute - 1) / time.Minute)
	hours, minutes := minutes/60, minutes%60
	switch {
	case hours == 0:
		return countOf(minutes, "minute")
	case minutes == 0:
		return countOf(hours, "hour")
	}
	return countOf(hours, "hour") + " " + countOf(minutes, "minute")
}

func countOf(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return strconv.Itoa(n) + " " + unit + "s"
}
