package partition

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/recent"
)

// TestQuotaHeldIsOneDecision: in the filter as in the API's answers, whichever rule refused what calls in flight may undo.
func TestQuotaHeldIsOneDecision(t *testing.T) {
	quota, key, anonymous := event.Decision_QUOTA_EXHAUSTED, event.Decision_KEY_QUOTA_EXHAUSTED, event.Decision_ANONYMOUS_LIMIT
	for _, c := range []struct {
		asked    event.Decision
		held     bool
		decision event.Decision
		status   recent.Status
		want     bool
	}{
		{0, false, key, recent.Held, true},
		{0, false, key, recent.Refused, true},
		{quota, true, quota, recent.Held, true},
		{quota, true, key, recent.Held, true},
		{quota, true, key, recent.Refused, false},
		{quota, false, quota, recent.Held, false},
		{quota, false, quota, recent.Refused, true},
		{key, false, key, recent.Held, false},
		{key, false, key, recent.Refused, true},
		{anonymous, false, anonymous, recent.Held, true},
		{quota, true, anonymous, recent.Held, false},
	} {
		q := &event.RecentQuery{Decision: c.asked, Held: c.held}
		if got := matches(q, &recent.Record{Decision: uint8(c.decision), Status: c.status}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
