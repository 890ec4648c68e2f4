package partition

import (
	"context"
	"errors"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/projection"
)

// TestRemakesAreShared: an account has one at a time, which answers for all messages that it has. There are maxRemakes of others at most,
// and few results are kept, for a while.
func TestRemakesAreShared(t *testing.T) {
	r := newRemakes()
	defer r.stop()
	now := time.Now()
	clock := func() time.Time { return now }
	hold := make(chan struct{})
	waits := func(ctx context.Context, job *remake) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		job.from, job.bytes = job.last-10, maxKeptBytes/8
		return ctx.Err()
	}
	first := r.begin(1, 100, clock, waits)
	if r.begin(1, 500, clock, waits) != first {
		t.Fatal("an account has two at a time")
	}
	for id := event.AccountID(2); id <= maxRemakes; id++ {
		if r.begin(id, 100, clock, waits) == nil {
			t.Fatalf("remake %d is refused", id)
		}
	}
	if r.begin(maxRemakes+1, 100, clock, waits) != nil {
		t.Fatalf("more than %d run", maxRemakes)
	}
	close(hold)
	for _, job := range r.jobs {
		<-job.done
	}
	now = now.Add(time.Second)
	newest := r.begin(1000, 100, clock, waits)
	<-newest.done
	for _, c := range []struct {
		last uint64
		same bool
	}{{100, true}, {91, true}, {90, false}} {
		if got := r.begin(1000, c.last, clock, waits); (got == newest) != c.same {
			t.Errorf("message %d: the same %v", c.last, !c.same)
		} else {
			<-got.done
		}
	}
	now = now.Add(keptRemade)
	r.begin(1, 100, clock, waits)
	if len(r.jobs) != 1 {
		t.Errorf("%d are kept after %s", len(r.jobs), keptRemade)
	}
	for last := uint64(100); last < 300; last += 10 {
		<-r.begin(1, last, clock, waits).done
	}
	if n := len(r.jobs); n > 9 { // the last one is not counted yet
		t.Errorf("%d results of an eighth of the room are kept", n)
	}
}

// TestAFailedRemakeIsRepeated, for the next who asks.
func TestAFailedRemakeIsRepeated(t *testing.T) {
	r := newRemakes()
	defer r.stop()
	fails := errors.New("fails")
	job := r.begin(1, 100, time.Now, func(context.Context, *remake) error { return fails })
	<-job.done
	if !errors.Is(job.err, fails) || job.has(100) {
		t.Fatalf("%v", job.err)
	}
	job = r.begin(1, 100, time.Now, func(_ context.Context, job *remake) error { job.from = 1; return nil })
	if <-job.done; !job.has(100) || !job.has(2) || job.has(1) || job.has(101) {
		t.Errorf("it begins after %d", job.from)
	}
}

// TestARemakeForgetsWholeMessages, from the first on.
func TestARemakeForgetsWholeMessages(t *testing.T) {
	row := func(sequence uint64, size int) projection.MadeRow {
		return projection.MadeRow{Sequence: sequence, Head: make([]byte, size)}
	}
	r := &remake{from: 1, last: 9, bytes: 22, rows: []projection.MadeRow{row(3, 10), row(3, 5), row(4, 7)}}
	if r.forget(); r.bytes != 7 || r.from != 3 || len(r.rows) != 1 || r.rows[0].Sequence != 4 {
		t.Errorf("%d bytes, rows after %d: %v", r.bytes, r.from, r.rows)
	}
}

// TestRowsAreAgedByWholeMonths: those of the retention stay, and those of the month before the present one.
func TestRowsAreAgedByWholeMonths(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		now       string
		retention time.Duration
		want      string
	}{
		{"2026-11-28T10:00:00Z", time.Hour, "2026-10-01T00:00:00Z"},
		{"2026-11-28T10:00:00Z", 58*day + 9*time.Hour, "2026-10-01T00:00:00Z"},
		{"2026-11-28T10:00:00Z", 58*day + 10*time.Hour + 1, "2026-09-01T00:00:00Z"},
		{"2026-11-01T00:00:00Z", time.Hour, "2026-10-01T00:00:00Z"},
		{"2026-10-31T23:59:59Z", time.Hour, "2026-09-01T00:00:00Z"},
		{"2026-01-15T00:00:00Z", time.Hour, "2025-12-01T00:00:00Z"},
		{"2026-01-15T00:00:00Z", 400 * day, "2024-12-01T00:00:00Z"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		if got := agedBefore(now, c.retention).Format(time.RFC3339); got != c.want {
			t.Errorf("at %s, retention %s: %s, want %s", c.now, c.retention, got, c.want)
		}
	}
}
