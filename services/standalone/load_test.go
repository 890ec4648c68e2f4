package standalone

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"quire.dev/cluster/load"
)

// newCrowd makes a crowd of clients of the quire at base, of all groups unless some are named.
func newCrowd(t testing.TB, base string, workers int, groups ...load.Group) *load.Load {
	t.Helper()
	l, err := load.New(t.Context(), load.Config{
		Bases: []string{base}, AdminToken: testAdminToken, Seed: loadSeed, Workers: workers, Groups: groups,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// loadSeed makes the clients' choices the same in each run of a test.
const loadSeed = 1

// running has the crowd at work until stop is called.
func running(t testing.TB, l *load.Load) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	return func() { cancel(); <-done }
}

// created is how many writes of quick pastes were acknowledged.
func created(l *load.Load) int64 { return l.Acked(load.Lite) }

// more waits until as many more writes of quick pastes are acknowledged.
func more(t testing.TB, what string, l *load.Load, count int64) {
	t.Helper()
	want := created(l) + count
	eventually(t, what, func() error {
		if got := created(l); got < want {
			return fmt.Errorf("%d writes, want %d", got, want)
		}
		return nil
	})
}

// check is all that the crowd was promised, and the audit.
func check(t testing.TB, l *load.Load) error {
	t.Helper()
	for _, kind := range []load.Kind{load.Read, load.Lite} {
		if l.Acked(kind) == 0 {
			t.Errorf("hardly any load: no %s", kind)
		}
	}
	return errors.Join(l.Verify(t.Context()), l.Audit(t.Context()))
}
