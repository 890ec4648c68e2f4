package projection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/views"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing/internal/account"
)

const someone = event.AccountID(77)

// flaky is a store that can lose the answers to commits that it has applied.
type flaky struct {
	views.Store
	lose    atomic.Int32
	commits atomic.Int32
}

func (f *flaky) Commit(ctx context.Context, b views.Batch) error {
	f.commits.Add(1)
	err := f.Store.Commit(ctx, b)
	if err == nil && f.lose.Add(-1) >= 0 {
		return views.Unavailable("commit", errors.New("the answer was lost"))
	}
	return err
}

func open(t *testing.T) *flaky {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "v.db"), Collections: Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &flaky{Store: store}
}

func start(t *testing.T, store views.Store, checkpoint uint64, bound int) *Projection {
	t.Helper()
	return run(t, New(store, "BILLING_0", checkpoint, bound, slog.New(slog.DiscardHandler)))
}

func run(t *testing.T, p *Projection) *Projection {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func effects(sequence uint64, n int) account.Effects {
	var e account.Effects
	for i := range n {
		e.Ledger = append(e.Ledger, &event.LedgerEntry{Id: fmt.Sprintf("%011d%06d", sequence, i), Account: uint64(someone), AmountMicros: 1})
	}
	return e
}

// rows are effects that take n rows: entries of one account share a row, so each has a different account.
func rows(sequence uint64, n int) account.Effects {
	e := effects(sequence, n)
	for i, entry := range e.Ledger {
		entry.Account += uint64(i)
	}
	return e
}

func count(t *testing.T, p *Projection) int {
	t.Helper()
	return countOf(t, p, someone)
}

func countOf(t *testing.T, p *Projection, id event.AccountID) int {
	t.Helper()
	n, before := 0, ""
	for {
		page, err := p.Page(t.Context(), id, Search{}, before, 500)
		if err != nil {
			t.Fatal(err)
		}
		if n += len(page.Entries); page.Next == "" {
			return n
		}
		before = page.Next
	}
}

func TestCommitsWhoseAnswerIsLostAreNotDoubled(t *testing.T) {
	store := open(t)
	p := start(t, store, 0, 0)
	for sequence := uint64(1); sequence <= 30; sequence++ {
		if sequence%5 == 0 {
			store.lose.Store(2)
		}
		if err := p.Push(t.Context(), sequence, effects(sequence, int(sequence%3))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Wait(t.Context(), 30); err != nil {
		t.Fatal(err)
	}
	if n := count(t, p); n != 30 {
		t.Fatalf("%d entries", n)
	}
}

// TestMessagesShareABatch until somebody waits for one, or a batch is full.
func TestMessagesShareABatch(t *testing.T) {
	store := open(t)
	p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	p.gatherTime = time.Hour
	run(t, p)
	var sequence uint64
	push := func(entries int) {
		t.Helper()
		sequence++
		if err := p.Push(t.Context(), sequence, rows(sequence, entries)); err != nil {
			t.Fatal(err)
		}
	}
	for _, wait := range []func(context.Context, uint64) error{p.Wait, p.Written} {
		before := store.commits.Load()
		for range 20 {
			push(1)
		}
		if err := wait(t.Context(), sequence); err != nil {
			t.Fatal(err)
		}
		// One, and one more where the last wait has left a sign that it is in a hurry.
		if n := store.commits.Load() - before; n > 2 {
			t.Fatalf("%d commits of 20 messages", n)
		}
	}
	push(batchPuts)
	eventually.True(t, "a full batch is written", func() bool { return p.Pending() == 0 })
}

func TestAMessageLargerThanABatchIsWhole(t *testing.T) {
	store := open(t)
	p := start(t, store, 0, 10)
	sizes := []int{3, 2*batchPuts + 7, 0, batchPuts, 1}
	for i, n := range sizes {
		if err := p.Push(t.Context(), uint64(i+1), rows(uint64(i+1), n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Wait(t.Context(), uint64(len(sizes))); err != nil {
		t.Fatal(err)
	}
	for i := range slices.Max(sizes) {
		want := 0
		for _, n := range sizes {
			if n > i {
				want++
			}
		}
		if n := countOf(t, p, someone+event.AccountID(i)); n != want {
			t.Fatalf("%d entries of account %d, want %d", n, i, want)
		}
	}
	if at, err := store.Checkpoint(t.Context(), "BILLING_0"); err != nil || at != uint64(len(sizes)) {
		t.Fatalf("checkpoint %d, %v", at, err)
	}
}

func TestTwoInstancesProjectOneStream(t *testing.T) {
	store := open(t)
	a, b := start(t, store, 0, 0), start(t, store, 0, 0)
	for sequence := uint64(1); sequence <= 200; sequence++ {
		for _, p := range []*Projection{a, b} {
			if err := p.Push(t.Context(), sequence, effects(sequence, 2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, p := range []*Projection{a, b} {
		if err := p.Wait(t.Context(), 200); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, a); n != 400 {
		t.Fatalf("%d entries", n)
	}
	// Messages that are folded again after a restart are left out.
	c := start(t, store, 200, 0)
	if err := c.Push(t.Context(), 150, effects(150, 2)); err != nil || c.Pending() != 0 {
		t.Fatalf("%d pending, %v", c.Pending(), err)
	}
}

func TestAReadModelThatWentBackIsNoticed(t *testing.T) {
	store := open(t)
	p := New(store, "BILLING_0", 40, 0, slog.New(slog.DiscardHandler)) // the store says 0
	if err := p.Push(t.Context(), 41, effects(41, 1)); err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, ErrRewound) {
		t.Fatalf("went on: %v", err)
	}
}

// TestTheAdminLogIsReadNewestFirst, from the part of one stream, and a message that is folded again adds nothing.
func TestTheAdminLogIsReadNewestFirst(t *testing.T) {
	store := open(t)
	other := New(store, "BILLING_1", 0, 0, slog.New(slog.DiscardHandler))
	p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	for sequence := range uint64(3) {
		for _, into := range []*Projection{p, other} {
			e := account.Effects{Admin: []*event.AdminEntry{
				{TimeMs: 1000, Action: fmt.Sprint(sequence, "a")}, {TimeMs: 1000 + int64(sequence), Action: fmt.Sprint(sequence, "b")},
			}}
			if err := into.Push(t.Context(), sequence+1, e); err != nil {
				t.Fatal(err)
			}
			if err := into.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	again := New(store, "BILLING_0", 2, 0, slog.New(slog.DiscardHandler)) // as another replica that is behind
	if err := again.Push(t.Context(), 3, account.Effects{Admin: []*event.AdminEntry{
		{TimeMs: 1000, Action: "2a"}, {TimeMs: 1002, Action: "2b"},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := again.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for before, more := "", true; more; {
		var entries []*event.AdminEntry
		var err error
		if entries, more, err = p.AdminPage(t.Context(), before, 2); err != nil || len(entries) != 2 {
			t.Fatalf("%v, %v", entries, err)
		}
		for _, e := range entries {
			got = append(got, e.Action)
		}
		if before = entries[1].Id; !ValidEntryID(before) {
			t.Errorf("%q is no id", before)
		}
	}
	if want := []string{"2b", "1b", "2a", "1a", "0b", "0a"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, bad := range []string{"", "x", "0-0-0", "00000000003e8", strings.Repeat("a", 600), adminEntryID(1000, 1, 0, "\xff")} {
		if ValidEntryID(bad) {
			t.Errorf("%q was taken for an id", bad)
		}
	}
}
