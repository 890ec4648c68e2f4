package partition

import (
	"testing"
	"time"

	"quire.dev/services/billing/internal/seal"
)

// TestUnansweredSealsAreFew: after three days in which the journal answers nothing, all that three replicas have sent may still arrive.
func TestUnansweredSealsAreFew(t *testing.T) {
	start := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	s := &sealing{last: start}
	sent := 0
	for now := start; now.Before(start.AddDate(0, 0, 3)); now = now.Add(earlySeal) {
		if s.isTime(now, earlySeal) {
			s.last, s.unanswered = now, s.unanswered+1
			sent++
		}
	}
	if sent < 10 || 3*sent >= seal.MaxEarlier {
		t.Errorf("%d seals were sent by each replica", sent)
	}
}
