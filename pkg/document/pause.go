package document

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errPaused: this process did not run for a while. The other members have taken its partitions over, and its memory may
// be older than their answers.
var errPaused = errors.New("this process stood still")

const (
	checkPauseEvery = 100 * time.Millisecond
	// pauseLimit is less than the silence after which the other members take over, 3 s, of which 1 s may have passed
	// since the last announcement.
	pauseLimit = 1500 * time.Millisecond
)

// pauseDetector notices that the process stood still: it was stopped, moved with its virtual machine, or had no
// processor. After that nothing may be answered from memory until the partition has begun again, and so has seen the
// journal's end.
type pauseDetector struct {
	elapsed func() time.Duration // monotonic
	checked atomic.Int64         // elapsed at the last check
	stood   atomic.Bool
}

func newPauseDetector() *pauseDetector {
	begun := time.Now()
	return &pauseDetector{elapsed: func() time.Duration { return time.Since(begun) }}
}

// begin starts the time until the first check.
func (d *pauseDetector) begin() { d.checked.Store(int64(d.elapsed())) }

// paused tells whether the process has stood still. Everything that answers asks it, since after a pause it may run
// before watch does.
func (d *pauseDetector) paused() bool {
	if time.Duration(int64(d.elapsed())-d.checked.Load()) > pauseLimit {
		d.stood.Store(true)
	}
	return d.stood.Load()
}

// watch runs until ctx ends, or returns errPaused.
func (d *pauseDetector) watch(ctx context.Context) error {
	tick := time.NewTicker(checkPauseEvery)
	defer tick.Stop()
	for {
		if d.paused() {
			return errPaused
		}
		d.begin()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
