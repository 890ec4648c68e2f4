package event_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
)

func TestTimesAreWrittenAsByTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(-62135596800000, 253402300799999).Draw(t, "ms") // of the years 1 to 9999
		want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
		if got := event.FormatTime(ms); got != want {
			t.Errorf("%d is %s, want %s", ms, got, want)
		}
	})
}

func BenchmarkAppendTime(b *testing.B) {
	var to []byte
	for b.Loop() {
		to = event.AppendTime(to[:0], 1_795_000_000_123)
	}
}
