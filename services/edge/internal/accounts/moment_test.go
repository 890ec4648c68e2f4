package accounts

import (
	"testing"

	"quire.dev/services/edge/internal/httpin/input"
)

func TestAMomentIsADayOrATime(t *testing.T) {
	for text, want := range map[string]int64{
		"1970-01-01": 0, "1970-01-02T00:00:00Z": 86_400_000, "1970-01-01T00:00:00.5Z": 500,
		"1969-12-31T23:59:59Z": -1, "1969-12-31": -1, "2026-11-31": -1, "2026-11-1": -1, "2026-11-30T1:00:00Z": -1,
		"2026-11-30T12:00:00,5Z": -1, "2026-11-30T12:00:00+24:00": -1, "": -1,
	} {
		got, err := momentField("from", input.Value{Kind: input.Query, Text: []byte(text)})
		if (err != nil) != (want < 0) || err == nil && got.start != want {
			t.Errorf("%q: %+v, %v, want %d", text, got, err, want)
		}
	}
}
