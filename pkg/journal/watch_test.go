package journal

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var errRefused = errors.New("refused")

func TestHysteresisNeedsEqualObservationsInARow(t *testing.T) {
	h := Hysteresis{Down: 3, Up: 2}
	for i, o := range []struct {
		failure       error
		changed, down bool
	}{
		{errRefused, false, false},
		{errRefused, false, false},
		{nil, false, false}, // begins again
		{errRefused, false, false},
		{errRefused, false, false},
		{errRefused, true, true},
		{errRefused, false, true},
		{nil, false, true},
		{errRefused, false, true}, // begins again
		{nil, false, true},
		{nil, true, false},
		{nil, false, false},
	} {
		if changed := h.Observe(o.failure); changed != o.changed || (h.Failing() != nil) != o.down {
			t.Fatalf("observation %d: changed %t, failing %v", i, changed, h.Failing())
		}
	}
	var at Hysteresis // changes at once
	if !at.Observe(errRefused) || !errors.Is(at.Failing(), errRefused) || !at.Observe(nil) || at.Failing() != nil {
		t.Error("the zero value waits")
	}
}

// watched is a journal with a watch, in the time of synctest.
type watched struct {
	position  atomic.Uint64
	refusing  atomic.Bool
	hanging   atomic.Bool // it does not answer at all
	probes    atomic.Int64
	suspected atomic.Int64 // probes of a suspected journal
	failing   atomic.Pointer[error]
	changes   atomic.Int64
}

func (w *watched) watch(ctx context.Context) {
	watch(ctx, Watch{Position: w.position.Load, Changed: func(cause error) {
		w.changes.Add(1)
		if w.failing.Store(&cause); cause == nil {
			w.failing.Store(nil)
		}
	}}, func(ctx context.Context, suspected bool) (uint64, error) {
		w.probes.Add(1)
		if suspected {
			w.suspected.Add(1)
		}
		switch {
		case w.hanging.Load():
			<-ctx.Done()
			return 0, ctx.Err()
		case w.refusing.Load():
			return 0, errRefused
		}
		return w.position.Add(1), nil
	})
}

// inWatch calls test with the watch of a journal running.
func inWatch(t *testing.T, test func(t *testing.T, w *watched)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &watched{}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go w.watch(ctx)
		test(t, w)
	})
}

func TestABusyJournalIsNotProbed(t *testing.T) {
	inWatch(t, func(t *testing.T, w *watched) {
		for range 600 { // ten minutes
			w.position.Add(1)
			<-time.After(watchEvery)
		}
		if n := w.probes.Load(); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}

// TestAnIdleJournalIsProbedAtMostEveryThreeSeconds: the messages stay in a journal that is kept permanently.
func TestAnIdleJournalIsProbedAtMostEveryThreeSeconds(t *testing.T) {
	inWatch(t, func(t *testing.T, w *watched) {
		<-time.After(time.Hour)
		if n := w.probes.Load(); n > 1200 || n < 1100 {
			t.Errorf("%d probes in an hour", n)
		}
		if n := w.suspected.Load() + w.changes.Load(); n != 0 {
			t.Errorf("%d probes or changes after success", n)
		}
	})
}

// TestOneProbeServesTwoReplicas: each sees the message of the other.
func TestOneProbeServesTwoReplicas(t *testing.T) {
	inWatch(t, func(t *testing.T, w *watched) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		<-time.After(watchEvery / 3)
		go w.watch(ctx)
		<-time.After(time.Hour)
		if n := w.probes.Load(); n > 1200 {
			t.Errorf("%d probes in an hour", n)
		}
	})
}

func TestAnOutageIsSeenWithinSevenSecondsAndItsEndWithinThree(t *testing.T) {
	for name, fails := range map[string]func(w *watched) *atomic.Bool{
		"refuses": func(w *watched) *atomic.Bool { return &w.refusing },
		"hangs":   func(w *watched) *atomic.Bool { return &w.hanging },
	} {
		t.Run(name, func(t *testing.T) {
			inWatch(t, func(t *testing.T, w *watched) {
				<-time.After(time.Minute)
				for busy := range 2 {
					if busy == 1 {
						w.position.Add(1)
					}
					fails(w).Store(true)
					<-time.After(7*time.Second + time.Millisecond)
					if w.failing.Load() == nil {
						t.Fatal("the outage is not seen")
					}
					<-time.After(time.Hour)
					if w.failing.Load() == nil || w.changes.Load() != int64(2*busy+1) {
						t.Fatalf("the outage is over after %d changes", w.changes.Load())
					}
					fails(w).Store(false)
					<-time.After(3*watchEvery + time.Millisecond)
					if w.failing.Load() != nil {
						t.Fatal("the end of the outage is not seen")
					}
				}
			})
		})
	}
}

// TestOneWriteDoesNotEndAnOutage: neither one probe, which the fold's position shows a second time, nor every other one.
func TestOneWriteDoesNotEndAnOutage(t *testing.T) {
	inWatch(t, func(t *testing.T, w *watched) {
		w.refusing.Store(true)
		<-time.After(10*time.Second + watchEvery/2)
		for range 100 {
			w.refusing.Store(false)
			<-time.After(watchEvery)
			w.refusing.Store(true)
			<-time.After(watchEvery)
			if w.failing.Load() == nil {
				t.Fatal("the outage is over")
			}
		}
	})
}

// TestAShortOutageIsNotReported, such as most elections of a leader.
func TestAShortOutageIsNotReported(t *testing.T) {
	inWatch(t, func(t *testing.T, w *watched) {
		for range 100 {
			w.hanging.Store(true)
			<-time.After(failuresUntilDown * watchEvery)
			w.hanging.Store(false)
			w.position.Add(1)
			<-time.After(watchEvery)
		}
		if n := w.changes.Load(); n != 0 {
			t.Errorf("%d changes", n)
		}
	})
}

func TestAWatchReportsTheCause(t *testing.T) {
	inWatch(t, func(t *testing.T, w *watched) {
		w.refusing.Store(true)
		<-time.After(10 * time.Second)
		if cause := w.failing.Load(); cause == nil || !errors.Is(*cause, errRefused) {
			t.Errorf("cause: %v", cause)
		}
	})
}
