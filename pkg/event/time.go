package event

import "time"

// FormatTime writes Unix milliseconds by RFC 3339, in UTC with milliseconds, as the API and webhooks write each time.
func FormatTime(ms int64) string {
	return string(AppendTime(make([]byte, 0, len("2006-01-02T15:04:05.000Z")), ms))
}

// AppendTime appends what FormatTime writes. The standard library is quick with whole seconds alone.
func AppendTime(to []byte, ms int64) []byte {
	t := time.UnixMilli(ms).UTC()
	to = t.AppendFormat(to, time.RFC3339)
	part := t.Nanosecond() / int(time.Millisecond)
	return append(to[:len(to)-1], '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10), 'Z')
}
