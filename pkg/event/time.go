package event

import "time"

// timeFormat is RFC 3339 in UTC with milliseconds, as the API and webhooks write each time.
const timeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime writes Unix milliseconds.
func FormatTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(timeFormat) }

// AppendTime appends what FormatTime writes.
func AppendTime(to []byte, ms int64) []byte {
	return time.UnixMilli(ms).UTC().AppendFormat(to, timeFormat)
}
