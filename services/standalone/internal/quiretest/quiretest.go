// Package quiretest is shared by the tests of a whole Quire, in one process or many: a crowd of clients, and read models that
// fail.
package quiretest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/eventually"
	"quire.dev/pkg/wait"
	"quire.dev/tools/cluster/load"
)

// Gather returns an idle crowd of clients.
func Gather(t testing.TB, cfg load.Config) *load.Load {
	t.Helper()
	l, err := load.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Running runs the crowd until stop is called, perhaps several times.
func Running(t testing.TB, l *load.Load) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	return func() { cancel(); <-done }
}

// More waits until count more writes of quick pastes are acknowledged.
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

// Check verifies everything acknowledged to the crowd, and audits the journals.
func Check(t testing.TB, l *load.Load) error {
	t.Helper()
	for _, kind := range []load.Kind{load.Read, load.Lite} {
		if l.Acked(kind) == 0 {
			t.Errorf("hardly any load: no %s", kind)
		}
	}
	return errors.Join(l.Verify(t.Context()), l.Audit(t.Context()))
}

// SlowBodyTime is how long a SlowBody keeps its reader waiting.
const SlowBodyTime = 300 * time.Millisecond

// SlowBody returns the body of a request, as a client with a slow network sends it.
func SlowBody(ctx context.Context, text string) io.Reader {
	half := len(text) / 2
	return io.MultiReader(strings.NewReader(text[:half]), &pause{ctx: ctx}, strings.NewReader(text[half:]))
}

// pause is an empty reader that ends after SlowBodyTime.
type pause struct{ ctx context.Context }

func (p *pause) Read([]byte) (int, error) {
	wait.For(p.ctx, SlowBodyTime)
	return 0, io.EOF
}
