package endpoint

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/bus"
)

// TestTheEndOfARefusalIsOneWholeSecond: the wait is in whole seconds from the time of the call, which has a fraction.
func TestTheEndOfARefusalIsOneWholeSecond(t *testing.T) {
	start := time.Date(2026, 11, 30, 23, 59, 50, 0, time.UTC).UnixMilli()
	verdict := func(decision event.Decision, ms int64, wait uint32) *bus.Verdict {
		return &bus.Verdict{Verdict: &event.Verdict{Decision: decision, RetryAfterSeconds: wait}, TimeMs: start + ms}
	}
	for _, ms := range []int64{793, 804, 888} {
		if got := resetMs(verdict(event.Decision_ANONYMOUS_LIMIT, ms, 5)); got != start+6000 {
			t.Errorf("%d ms: %d", ms, got-start)
		}
		if got := resetMs(verdict(event.Decision_QUOTA_EXHAUSTED, ms, 10)); got != start+10_000 {
			t.Errorf("a month, %d ms: %d", ms, got-start)
		}
	}
	if got := resetMs(verdict(event.Decision_ANONYMOUS_LIMIT, 0, 5)); got != start+5000 {
		t.Errorf("without a fraction: %d", got-start)
	}
}
