package wait_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/wait"
)

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	b := wait.Backoff{Initial: 10, Max: 35}
	for _, want := range []time.Duration{10, 20, 35, 35} {
		if got := b.Next(); got != want {
			t.Fatalf("waits %d, want %d", got, want)
		}
	}
	b.Reset()
	if got := b.Next(); got != 10 {
		t.Errorf("waits %d after a reset", got)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if (&wait.Backoff{Initial: time.Hour, Max: time.Hour}).Wait(ended) {
		t.Error("waited for an hour")
	}
	if !wait.For(t.Context(), 1) {
		t.Error("did not wait")
	}
}

// TestNobodyMissesTheSequenceThatTheyWaitFor has many goroutines wait while the position moves on.
func TestNobodyMissesTheSequenceThatTheyWaitFor(t *testing.T) {
	const last = 500
	var position wait.Position
	var waiting sync.WaitGroup
	for sequence := range uint64(last + 1) {
		waiting.Go(func() {
			if err := position.Until(t.Context(), sequence); err != nil || position.Get() < sequence {
				t.Errorf("waited for %d, got %v at %d", sequence, err, position.Get())
			}
		})
	}
	for sequence := range uint64(last + 1) {
		position.Set(sequence)
	}
	waiting.Wait()
	ended, end := context.WithCancel(t.Context())
	end()
	if err := position.Until(ended, last); err != nil {
		t.Errorf("what is there already: %v", err)
	}
	if err := position.Until(ended, last+1); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

func TestGatheringEndsWhereSomebodyWaits(t *testing.T) {
	g := wait.NewGathering()
	g.Hurry()
	g.Hurry() // one is enough
	if !g.For(t.Context(), time.Hour) {
		t.Error("was not hurried")
	}
	if !g.For(t.Context(), 1) {
		t.Error("did not wait")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if g.For(ended, time.Hour) {
		t.Error("waited for an hour")
	}
	var changes wait.Changes
	if err := g.Until(ended, &changes, func() bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if !g.For(t.Context(), time.Hour) {
		t.Error("the one who waits has not hurried it")
	}
	if err := g.Until(ended, &changes, func() bool { return true }); err != nil {
		t.Error(err)
	}
	if g.For(ended, time.Hour) {
		t.Error("a condition that holds hurried it")
	}
}
