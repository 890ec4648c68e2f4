package document

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestAProcessThatStoodStillIsNoticedByWhoeverRunsFirst(t *testing.T) {
	for name, watches := range map[string]bool{"the one who answers": false, "the watch": true} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Int64
			p := &pauseDetector{elapsed: func() time.Duration { return time.Duration(now.Load()) }}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for range 5 { // in time, up to the limit
				now.Add(int64(pauseLimit))
				if err := p.watch(ctx); err != nil || p.paused() {
					t.Fatalf("lost without a pause: %v", err)
				}
			}
			now.Add(int64(pauseLimit) + 1)
			if watches {
				if err := p.watch(t.Context()); !errors.Is(err, errPaused) {
					t.Errorf("watch: %v", err)
				}
			} else if !p.paused() {
				t.Error("a pause is not noticed")
			}
			now.Add(-int64(pauseLimit)) // as after a watch that came between
			if !p.paused() {
				t.Error("it is forgotten before the fold has begun again")
			}
		})
	}
}
