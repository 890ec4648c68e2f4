package partition

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/snapshots"
)

// TestASnapshotIsDueAfterMessagesEntriesOrTime: after entries sooner than after half of those that may lie between kept ones, and the later,
// the larger the last one was.
func TestASnapshotIsDueAfterMessagesEntriesOrTime(t *testing.T) {
	for name, c := range map[string]struct {
		messages, entries uint64 // since the last one
		size              int64
		age               time.Duration
		due               bool
	}{
		"nothing":          {age: time.Hour},
		"too few":          {messages: 999, entries: 899, age: time.Minute - 1},
		"messages":         {messages: 1000, due: true},
		"entries":          {messages: 1, entries: 900, due: true},
		"time":             {messages: 1, age: time.Minute, due: true},
		"a large one":      {messages: 1, entries: 900, size: 1_000_000},
		"a large one, due": {messages: 1, entries: 18_000, size: 1_000_000, due: true},
	} {
		p := &Partition{
			cfg: Config{SnapshotMessages: 1000, SnapshotInterval: time.Minute, History: snapshots.Spacing{Messages: 1 << 30, Entries: 2000}},
		}
		p.lastSnapshot = snapshots.Snapshot{Sequence: 7, Entries: 70, Size: c.size}
		p.position.Set(7 + c.messages)
		p.fold = foldWith(t, 70+c.entries)
		if due := p.snapshotDue(c.age); due != c.due {
			t.Errorf("%s: due %v", name, due)
		}
	}
}

// foldWith is a fold that has counted entries.
func foldWith(t *testing.T, entries uint64) *account.Fold {
	t.Helper()
	image, err := account.New().Image()
	if err != nil {
		t.Fatal(err)
	}
	state := &event.BillingState{}
	if err := event.Decode(image.Encode(), state); err != nil {
		t.Fatal(err)
	}
	state.Entries = entries
	fold, err := account.Restore(state)
	if err != nil {
		t.Fatal(err)
	}
	return fold
}
