package input

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestTimesOfRFC3339AreRead(t *testing.T) {
	for text, want := range map[string]string{
		"1985-04-12T23:20:50.52Z":            "1985-04-12T23:20:50.52Z",
		"1996-12-19T16:39:57-08:00":          "1996-12-20T00:39:57Z",
		"1937-01-01T12:00:27.87+00:20":       "1937-01-01T11:40:27.87Z",
		"2026-11-30t12:00:00z":               "2026-11-30T12:00:00Z",
		"2026-11-30T00:00:00Z":               "2026-11-30T00:00:00Z",
		"2026-11-30T23:59:59+23:59":          "2026-11-30T00:00:59Z",
		"2026-11-30T00:00:00-23:59":          "2026-11-30T23:59:00Z",
		"2026-11-30T12:00:00-00:00":          "2026-11-30T12:00:00Z",
		"2024-02-29T00:00:00Z":               "2024-02-29T00:00:00Z",
		"2000-02-29T00:00:00Z":               "2000-02-29T00:00:00Z",
		"0000-01-01T00:00:00Z":               "0000-01-01T00:00:00Z",
		"0000-02-29T00:00:00Z":               "0000-02-29T00:00:00Z",
		"9999-12-31T23:59:59.999999999Z":     "9999-12-31T23:59:59.999999999Z",
		"2026-11-30T12:00:00.1234567899999Z": "2026-11-30T12:00:00.123456789Z",
		"2026-11-30T12:00:00.0Z":             "2026-11-30T12:00:00Z",
		// Leap seconds: the examples of RFC 3339, 5.8, and their limits.
		"1990-12-31T23:59:60Z":      "1991-01-01T00:00:00Z",
		"1990-12-31T15:59:60-08:00": "1991-01-01T00:00:00Z",
		"1991-01-01T00:29:60+00:30": "1991-01-01T00:00:00Z",
		"2015-06-30T23:59:60.5Z":    "2015-07-01T00:00:00.5Z",
		"1972-06-30T23:59:60Z":      "1972-07-01T00:00:00Z",
	} {
		got, err := ParseTime(text)
		if err != nil || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestOtherFormsOfTimesAreRefusedWithTheCause(t *testing.T) {
	for text, cause := range map[string]string{
		"":                               "the year must be 0000 to 9999",
		"now":                            "the year",
		"26-11-30T12:00:00Z":             "the year",
		"+2026-11-30T12:00:00Z":          "the year",
		"-001-11-30T12:00:00Z":           "the year",
		"12026-11-30T12:00:00Z":          `"-" must follow the year`,
		" 2026-11-30T12:00:00Z":          "the year",
		"2026-11-30":                     `"T" must follow the day`,
		"20261130T120000Z":               `"-" must follow the year`,
		"2026/11/30T12:00:00Z":           `"-" must follow the year`,
		"2026-W48-1T12:00:00Z":           "the month",
		"2026-334T12:00:00Z":             "the month",
		"2026-1-30T12:00:00Z":            "the month",
		"2026-00-30T12:00:00Z":           "the month must be 01 to 12",
		"2026-13-30T12:00:00Z":           "the month must be 01 to 12",
		"2026-11-00T12:00:00Z":           "the day must be 01 to 30",
		"2026-11-31T12:00:00Z":           "the day must be 01 to 30",
		"2026-02-29T12:00:00Z":           "the day must be 01 to 28",
		"2024-02-30T12:00:00Z":           "the day must be 01 to 29",
		"1900-02-29T12:00:00Z":           "the day must be 01 to 28",
		"2026-11-3T12:00:00Z":            "the day",
		"2026-11-30 12:00:00Z":           `"T" must follow the day`,
		"2026-11-30_12:00:00Z":           `"T" must follow the day`,
		"2026-11-30T1:00:00Z":            "the hour must be 00 to 23",
		"2026-11-30T24:00:00Z":           "the hour must be 00 to 23",
		"2026-11-30T12:60:00Z":           "the minute must be 00 to 59",
		"2026-11-30T12:0:00Z":            "the minute",
		"2026-11-30T12:00Z":              `":" must follow the minute`,
		"2026-11-30T12:00:0Z":            "the second",
		"2026-11-30T12:00:61Z":           "the second must be 00 to 60",
		"1990-12-31T23:59:61Z":           "the second must be 00 to 60",
		"2026-11-30T12:00:60Z":           "a second 60 exists",
		"2026-11-30T23:59:60Z":           "a second 60 exists",
		"1990-12-31T23:58:60Z":           "a second 60 exists",
		"1990-12-31T23:59:60-08:00":      "a second 60 exists",
		"1990-12-30T23:59:60Z":           "a second 60 exists",
		"1971-12-31T23:59:60Z":           "a second 60 exists",
		"2026-11-30T12:00:00,5Z":         "Z or an offset",
		"2026-11-30T12:00:00.Z":          "digits must follow the point",
		"2026-11-30T12:00:00.5.5Z":       "Z or an offset",
		"2026-11-30T12:00.5Z":            `":" must follow the minute`,
		"2026-11-30T12:00:00":            "Z or an offset",
		"2026-11-30T12:00:00UTC":         "Z or an offset",
		"2026-11-30T12:00:00 Z":          "Z or an offset",
		"2026-11-30T12:00:00Z ":          "nothing may follow",
		"2026-11-30T12:00:00Z\x00":       "nothing may follow",
		"2026-11-30T12:00:00Z[UTC]":      "nothing may follow",
		"2026-11-30T12:00:00+24:00":      "the offset's hour must be 00 to 23",
		"2026-11-30T12:00:00+02:60":      "the offset's minute must be 00 to 59",
		"2026-11-30T12:00:00+2:00":       "the offset's hour",
		"2026-11-30T12:00:00+0200":       `":" must follow the offset's hour`,
		"2026-11-30T12:00:00+02":         `":" must follow the offset's hour`,
		"2026-11-30T12:00:00+02:00:00":   "nothing may follow",
		"2026-11-30T12:00:00\u221202:00": "Z or an offset", // MINUS SIGN
		"٢٠٢٦-11-30T12:00:00Z":           "the year",
		"0000-01-01T00:00:00+00:01":      "the year in UTC",
		"9999-12-31T23:59:59-00:01":      "the year in UTC",
		"9999-12-31T23:59:60Z":           "the year in UTC",
	} {
		got, err := ParseTime(text)
		if err == nil || !strings.Contains(err.Error(), cause) {
			t.Errorf("%q: %v, %v, want an error with %q", text, got, err, cause)
		}
	}
}

// rfc3339 is the grammar of RFC 3339, 5.6.
var rfc3339 = regexp.MustCompile(`^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// FuzzParseTime: a time that the standard library accepts too means the same, and what violates the grammar is rejected.
func FuzzParseTime(f *testing.F) {
	for _, text := range []string{
		"2026-11-30T12:00:00Z", "2026-11-30T1:00:00Z", "2026-11-30T12:00:00,5Z", "2026-11-30T12:00:00+24:00",
		"1990-12-31T15:59:60-08:00", "2024-02-29t00:00:00.123456789z", "0000-01-01T00:00:00+23:59", "2026-02-29T12:00:00Z",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseTime(text)
		want, lax := time.Parse(time.RFC3339, strings.ToUpper(text))
		inForm := rfc3339.MatchString(text)
		switch {
		case err == nil && !inForm:
			t.Errorf("%q is read as %s, which the grammar refuses", text, got)
		case err == nil && lax == nil && !got.Equal(want):
			t.Errorf("%q is read as %s, by the standard library as %s", text, got, want)
		case err == nil && lax != nil && !strings.Contains(text, ":60"):
			t.Errorf("%q is read as %s, by the standard library not: %v", text, got, lax)
		case err != nil && lax == nil && inForm && want.UTC().Year() >= 0 && want.UTC().Year() <= 9999:
			t.Errorf("%q is refused: %v", text, err)
		}
		if err == nil && got.UTC().Year() > 9999 {
			t.Errorf("%q can't be written as a time", text)
		}
	})
}
