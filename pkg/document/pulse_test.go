package document

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestAProcessThatStoodStillIsNoticedByWhoeverRunsFirst(t *testing.T) {
	for name, beats := range map[string]bool{"the one who answers": false, "the beat": true} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Int64
			p := &pulse{since: func() time.Duration { return time.Duration(now.Load()) }}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 5 { // in time, up to the limit
				now.Add(int64(pauseLimit))
				if err := p.beat(ctx); err != nil || p.lost() {
					t.Fatalf("lost without a pause: %v", err)
				}
			}
			now.Add(int64(pauseLimit) + 1)
			if beats {
				if err := p.beat(t.Context()); !errors.Is(err, errPaused) {
					t.Errorf("beat: %v", err)
				}
			} else if !p.lost() {
				t.Error("a pause is not noticed")
			}
			now.Add(-int64(pauseLimit)) // as after a beat that came between
			if !p.lost() {
				t.Error("it is forgotten before the fold has begun again")
			}
		})
	}
}
