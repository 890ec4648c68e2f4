package partition

import (
	"testing"

	"quire.dev/pkg/event"
)

// TestQuotaHeldIsOneDecision: in the filter as in the API's answers, whichever rule refused what calls in flight may undo.
func TestQuotaHeldIsOneDecision(t *testing.T) {
	quota, key, anonymous := event.Decision_QUOTA_EXHAUSTED, event.Decision_KEY_QUOTA_EXHAUSTED, event.Decision_ANONYMOUS_LIMIT
	for _, c := range []struct {
		asked     event.Decision
		askedHeld bool
		decision  event.Decision
		held      bool
		want      bool
	}{
		{0, false, key, true, true},
		{0, false, key, false, true},
		{quota, true, quota, true, true},
		{quota, true, key, true, true},
		{quota, true, key, false, false},
		{quota, false, quota, true, false},
		{quota, false, quota, false, true},
		{key, false, key, true, false},
		{key, false, key, false, true},
		{anonymous, false, anonymous, true, true},
		{quota, true, anonymous, true, false},
	} {
		q := &event.RecentQuery{Decision: c.asked, Held: c.askedHeld}
		if got := matches(q, &event.RecentRequest{Decision: c.decision, Held: c.held}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
