package journal

import (
	"context"
	"math/rand/v2"
	"time"
)

// A watch notices within 7 s of the last stored message that a journal takes no writes. NATS elects a leader in 4 to
// 9 s: most elections pass unnoticed, and calls only wait for them.
const (
	watchEvery = time.Second // between two observations, and the bound of one probe
	// watchIdle is the time without a stored message after which a watch probes the journal. The messages of an idle partition
	// stay in its journal: at most one per watchIdle, rounded up to the next observation.
	watchIdle   = 2 * time.Second
	watchSpread = 500 * time.Millisecond // added at random, so that one probe serves all watches of a partition
	// failuresUntilDown and successesUntilUp are observations in a row.
	failuresUntilDown = 3
	successesUntilUp  = 2
)

// Hysteresis is a state that changes after some equal observations in a row. Its zero value is up. Not safe for concurrent use.
type Hysteresis struct {
	Down, Up int // observations in a row that change the state; 0 means 1

	down     bool
	contrary int   // last observations, in a row, that contradict the state
	cause    error // of the last failure
}

// Observe records a success, for nil, or a failure. It reports whether the state has changed.
func (h *Hysteresis) Observe(failure error) (changed bool) {
	if failure != nil {
		h.cause = failure
	}
	if (failure != nil) == h.down {
		h.contrary = 0
		return false
	}
	h.contrary++
	if needed := h.needed(); h.contrary < needed {
		return false
	}
	h.down, h.contrary = !h.down, 0
	return true
}

func (h *Hysteresis) needed() int {
	if h.down {
		return max(h.Up, 1)
	}
	return max(h.Down, 1)
}

// Failing is the cause of the last failure while the state is down, else nil.
func (h *Hysteresis) Failing() error {
	if h.down {
		return h.cause
	}
	return nil
}

// isSuspected reports whether the state is down, or the last observation was a failure.
func (h *Hysteresis) isSuspected() bool { return h.down || h.contrary > 0 }

// Watch describes a watch of a journal for whether it takes writes.
type Watch struct {
	// Position is the sequence of a message known to be stored, as of a fold. It grows with each new one.
	Position func() uint64
	// Quiet: while nothing has failed, an idle journal is only asked for its state. That suffices where the server is in this
	// process, which restarts a server that can't write.
	Quiet bool
	// Changed is called with the cause once the journal takes no writes, and with nil once it does again.
	Changed func(cause error)
}

// Watch observes until ctx ends whether the journal takes writes. Stored messages show it. Of a journal that is idle Watch asks
// a proof: one message, the Confirmer's, which the fold must ignore. A probe that fails is repeated each second, until the
// journal takes two writes in a row.
func (c *Confirmer) Watch(ctx context.Context, w Watch) {
	watch(ctx, w, func(ctx context.Context, suspected bool) (uint64, error) {
		if w.Quiet && !suspected {
			return c.journal.LastSequence(ctx)
		}
		return c.Append(ctx)
	})
}

func watch(ctx context.Context, w Watch, probe func(ctx context.Context, suspected bool) (sequence uint64, err error)) {
	state := Hysteresis{Down: failuresUntilDown, Up: successesUntilUp}
	observe := func(failure error) {
		if state.Observe(failure) {
			w.Changed(state.Failing())
		}
	}
	idle := watchIdle + rand.N(watchSpread)
	known, since := w.Position(), time.Now()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if position := w.Position(); position > known {
			known, since = position, time.Now()
			observe(nil)
			continue
		}
		if !state.isSuspected() && time.Since(since) < idle {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, watchEvery)
		sequence, err := probe(attempt, state.isSuspected())
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			known, since = max(known, sequence), time.Now() // so that the fold's position does not count this write again
		}
		observe(err)
	}
}
