// Package clustertest is what tests of a running Quire share.
package clustertest

import (
	"testing"
	"time"
)

// tick is how often a condition is looked at.
const tick = 20 * time.Millisecond

// Eventually repeats step until it returns nil, and ends the test when it has not within limit.
func Eventually(t testing.TB, limit time.Duration, what string, step func() error) {
	t.Helper()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	deadline := time.After(limit)
	for {
		err := step()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("%s: %v after %s", what, err, limit)
		}
	}
}
