package headers

import (
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"quire.dev/services/edge/internal/httpin/httperr"
)

// Validators identify the current representation, for preconditions to compare.
type Validators struct {
	ETag       string // opaque, without quotes
	ModifiedMs int64  // 0: unknown; conditions with a date are ignored
	// Settled means that the content did not change twice in the second of ModifiedMs, so that the date is a strong validator
	// (RFC 9110, 8.8.2.2).
	Settled bool
}

// lastModified is the date in Unix seconds, as Last-Modified has it.
func (v *Validators) lastModified() int64 { return time.UnixMilli(v.ModifiedMs).Unix() }

// SetLastModified sets the answer's Last-Modified.
func SetLastModified(c *fiber.Ctx, v Validators) {
	if v.ModifiedMs != 0 {
		c.Set(fiber.HeaderLastModified, time.UnixMilli(v.ModifiedMs).UTC().Format(imfDate))
	}
}

// Conditions are the preconditions of a request (RFC 9110, 13.1) except If-Range, which WriteRange evaluates.
type Conditions struct {
	match, noneOf                  ETags
	unmodifiedSince, modifiedSince date
	reads                          bool // GET or HEAD
}

// date is a condition's date in Unix seconds.
type date struct {
	sent bool // and valid
	unix int64
}

// ReadConditions parses all preconditions. A malformed list of tags is 400. An invalid HTTP-date is ignored (RFC 9110, 13.1.3
// and 13.1.4), and so is If-Modified-Since unless the method is GET or HEAD.
func ReadConditions(c *fiber.Ctx) (out Conditions, err error) {
	if out.match, err = ParseETags(c, fiber.HeaderIfMatch); err != nil {
		return out, err
	}
	if out.noneOf, err = ParseETags(c, fiber.HeaderIfNoneMatch); err != nil {
		return out, err
	}
	out.reads = c.Method() == fiber.MethodGet || c.Method() == fiber.MethodHead
	out.unmodifiedSince = readDate(c, fiber.HeaderIfUnmodifiedSince)
	if out.reads {
		out.modifiedSince = readDate(c, fiber.HeaderIfModifiedSince)
	}
	return out, nil
}

func readDate(c *fiber.Ctx, header string) date {
	values := c.Context().Request.Header.PeekAll(header)
	if len(values) != 1 { // nearly always none
		return date{}
	}
	t, ok := parseHTTPDate(string(values[0]), time.Now())
	return date{ok, t.Unix()}
}

// Check evaluates the conditions in the order of RFC 9110, 13.2.2. A failed one is err, a 412. Otherwise known reports
// whether the client of a GET or HEAD already has the representation, for a 304.
func (c *Conditions) Check(v Validators) (known bool, err error) {
	dated := v.ModifiedMs != 0
	switch {
	case c.match.sent:
		if !c.match.allows(v.ETag) {
			return false, unmet(fiber.HeaderIfMatch, "If-Match does not match the current ETag.")
		}
	case c.unmodifiedSince.sent && dated && v.lastModified() > c.unmodifiedSince.unix:
		return false, unmet(fiber.HeaderIfUnmodifiedSince, "This was modified after the date in If-Unmodified-Since.")
	}
	if c.noneOf.sent {
		known = c.noneOf.Matches(v.ETag)
		if known && !c.reads {
			return false, unmet(fiber.HeaderIfNoneMatch, "If-None-Match matches the current ETag.")
		}
		return known, nil
	}
	return c.modifiedSince.sent && dated && v.lastModified() <= c.modifiedSince.unix, nil
}

// Versions returns the versions that If-Match allows, as ETags.Numbers, if it is the only condition. Otherwise decided is
// false, and Check must decide for the existing version.
func (c *Conditions) Versions() (versions []uint64, decided bool) {
	if c.noneOf.sent || c.unmodifiedSince.sent && !c.match.sent {
		return nil, false
	}
	return c.match.Numbers(), true
}

func unmet(header, message string) *httperr.Error {
	return &httperr.Error{Status: fiber.StatusPreconditionFailed, Code: httperr.CodeVersionMismatch, Field: header, Message: message}
}

// The formats of an HTTP-date (RFC 9110, 5.6.7); the last two are obsolete.
const (
	imfDate    = "Mon, 02 Jan 2006 15:04:05 GMT"
	rfc850Date = "Monday, 02-Jan-06 15:04:05 GMT"
	ascDate    = "Mon Jan _2 15:04:05 2006"
)

// parseHTTPDate parses a date strictly in one of the three formats, except that the day's name need not match the date. A
// two-digit year is at most 50 years ahead.
func parseHTTPDate(text string, now time.Time) (time.Time, bool) {
	text = strings.Trim(text, " \t")
	text, leap := cutLeapSecond(text)
	for _, form := range []string{imfDate, rfc850Date, ascDate} {
		t, err := time.Parse(form, text)
		if err != nil || afterDay(t.Format(form)) != afterDay(text) || !strings.Contains(dayNames, " "+beforeDay(text)+" ") {
			continue // time.Parse is more lenient
		}
		if form == rfc850Date {
			century := now.Year() / 100 * 100
			t = t.AddDate(century+t.Year()%100-t.Year(), 0, 0)
			if t.After(now.AddDate(50, 0, 0)) {
				t = t.AddDate(-100, 0, 0)
			}
		}
		return t.Add(leap), true
	}
	return time.Time{}, false
}

const dayNames = " Mon Tue Wed Thu Fri Sat Sun Monday Tuesday Wednesday Thursday Friday Saturday Sunday "

// beforeDay is the day's name at the start of a date, afterDay is the rest.
func beforeDay(date string) string { return date[:len(date)-len(afterDay(date))] }

func afterDay(date string) string {
	if at := strings.IndexAny(date, ", "); at >= 0 {
		return date[at:]
	}
	return ""
}

// cutLeapSecond replaces 23:59:60, which the standard library rejects, with the second before, and returns the difference.
func cutLeapSecond(date string) (string, time.Duration) {
	if before, after, ok := strings.Cut(date, " 23:59:60 "); ok {
		return before + " 23:59:59 " + after, time.Second
	}
	return date, 0
}
