package pages

import (
	"html/template"
	"strconv"
	"time"
)

// Functions are the template functions shared with other packages.
func Functions() template.FuncMap {
	return template.FuncMap{"size": sizeText, "time": timeTag, "number": numberText}
}

// Number formats a whole number with commas between thousands.
func Number(n int64) string { return numberText(n) }

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
