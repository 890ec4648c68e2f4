package document

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// errPaused says that this process did not run for a while. Others have taken its partitions over meanwhile, and what
// it has in memory may be older than what they have answered.
var errPaused = errors.New("this process stood still")

const (
	pulseEvery = 100 * time.Millisecond
	// pauseLimit is less than the silence after which the other members take over, the last announcement
	// having been up to a heartbeat ago: 3 s less 1 s.
	pauseLimit = 1500 * time.Millisecond
)

// pulse notices that a process stood still: stopped, moved with its virtual machine, without a processor. Until the
// fold has begun again, and so has seen the journal's end, nothing is to be answered from memory.
type pulse struct {
	since func() time.Duration // monotonic
	last  atomic.Int64         // of since
	stood atomic.Bool
}

func newPulse() *pulse {
	begun := time.Now()
	return &pulse{since: func() time.Duration { return time.Since(begun) }}
}

// lost tells whether the process stood still since the pulse was made. Whoever answers asks it: after a pause it may
// run before beat does.
func (p *pulse) lost() bool {
	if time.Duration(int64(p.since())-p.last.Load()) > pauseLimit {
		p.stood.Store(true)
	}
	return p.stood.Load()
}

// beat runs until ctx ends, or returns errPaused.
func (p *pulse) beat(ctx context.Context) error {
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		if p.lost() {
			return errPaused
		}
		p.last.Store(int64(p.since()))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
