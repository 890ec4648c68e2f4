// Package eventually lets tests wait: it polls a condition, and fails the test if the condition never holds. No other test code
// may sleep.
package eventually

import (
	"errors"
	"testing"
	"time"
)

const (
	// limit allows for many processes on two shared cores. Only a failing test waits that long.
	limit    = 5 * time.Minute
	minPause = time.Millisecond
	maxPause = 20 * time.Millisecond
)

var errFalse = errors.New("still false")

// True waits until condition returns true.
func True(t testing.TB, name string, condition func() bool) {
	t.Helper()
	NoError(t, name, func() error {
		if !condition() {
			return errFalse
		}
		return nil
	})
}

// NoError repeats step until it returns nil. Its last error fails the test.
func NoError(t testing.TB, name string, step func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := step()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s: %v", name, limit, err)
		}
		time.Sleep(pause)
	}
}
