// Package quiretest is the crowd of clients that the tests of a whole Quire share, of one process and of many.
package quiretest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"quire.dev/cluster/load"
	"quire.dev/pkg/eventually"
)

// crowdSeed makes the clients' choices the same in each run of a test.
const crowdSeed = 1

// Crowd is who a crowd of clients talks to, and how many they are.
type Crowd struct {
	Bases      []string // base URLs, one for each edge
	AdminToken string
	Workers    int
	Pace       time.Duration // that each waits between two calls; 0: none
	Groups     []load.Group  // nil: all
}

// Gather makes the crowd. It does not work yet.
func (c Crowd) Gather(t testing.TB) *load.Load {
	t.Helper()
	l, err := load.New(t.Context(), load.Config{
		Bases: c.Bases, AdminToken: c.AdminToken, Seed: crowdSeed, Workers: c.Workers, Pace: c.Pace, Groups: c.Groups,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Running has the crowd at work until stop is called, which may be called again.
func Running(t testing.TB, l *load.Load) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	return func() { cancel(); <-done }
}

// More waits until as many more writes of quick pastes are acknowledged.
func More(t testing.TB, what string, l *load.Load, count int64) {
	t.Helper()
	want := l.Acked(load.Lite) + count
	eventually.NoError(t, what, func() error {
		if got := l.Acked(load.Lite); got < want {
			return fmt.Errorf("%d writes, want %d", got, want)
		}
		return nil
	})
}

// Check is all that the crowd was promised, and the audit.
func Check(t testing.TB, l *load.Load) error {
	t.Helper()
	for _, kind := range []load.Kind{load.Read, load.Lite} {
		if l.Acked(kind) == 0 {
			t.Errorf("hardly any load: no %s", kind)
		}
	}
	return errors.Join(l.Verify(t.Context()), l.Audit(t.Context()))
}
