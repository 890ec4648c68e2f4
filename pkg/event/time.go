package event

import (
	"time"

	"quire.dev/pkg/num"
)

// FormatTime formats Unix milliseconds by RFC 3339, in UTC with milliseconds, as in the API and webhooks.
func FormatTime(ms int64) string {
	return string(AppendTime(make([]byte, 0, len("2006-01-02T15:04:05.000Z")), ms))
}

// AppendTime is FormatTime that appends. The standard library is fast only for whole seconds.
func AppendTime(to []byte, ms int64) []byte {
	t := time.UnixMilli(ms).UTC()
	to = t.AppendFormat(to, time.RFC3339)
	part := t.Nanosecond() / int(time.Millisecond)
	return append(to[:len(to)-1], '.', num.Uint8('0'+part/100), num.Uint8('0'+part/10%10), num.Uint8('0'+part%10), 'Z')
}

// MonthNumber is the month of t, a time in UTC, as a number: 12*year + month - 1.
func MonthNumber(t time.Time) uint32 { return num.Uint32(t.Year()*12 + int(t.Month()) - 1) }
