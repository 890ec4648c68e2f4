package projection

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// chain is an account's chain in a test.
type chain struct {
	id      event.AccountID
	hashes  []account.Hash // after each number, from 0 on
	entries [][event.EntryBytes]byte
}

func newChain(id event.AccountID) *chain {
	return &chain{id: id, hashes: []account.Hash{event.FirstEntryHash(id)}}
}

// next adds n entries to the chain.
func (c *chain) next(n int) (list []account.AccountEntry) {
	for range n {
		var data [event.EntryBytes]byte
		e := event.Entry{Kind: event.EntryAdmitted, TimeMs: noon, Month: 202611, QuotaKey: 2, Charge: 1, Request: event.NewRequestID()}
		e.Encode(&data)
		before := c.hashes[len(c.hashes)-1]
		c.entries, c.hashes = append(c.entries, data), append(c.hashes, event.LinkEntry(before, &data))
		list = append(list, account.AccountEntry{Account: c.id, Number: uint64(len(c.entries)), Before: before, Data: data})
	}
	return list
}

// check reports whether a run is the chain's entries from a number to another.
func (c *chain) check(run EntryRun, first, last int) bool {
	if run.First != uint64(first) || run.Len() != last-first+1 || run.Before != c.hashes[first-1] {
		return false
	}
	for i := range run.Len() {
		if [event.EntryBytes]byte(run.Data[i*event.EntryBytes:]) != c.entries[first-1+i] {
			return false
		}
	}
	return run.After(run.Len()) == c.hashes[last]
}

func entriesAt(millis int64, lists ...[]account.AccountEntry) account.Effects {
	e := account.Effects{TimeMillis: millis}
	for _, list := range lists {
		e.Entries = append(e.Entries, list...)
	}
	return e
}

func pushedEffects(t *testing.T, p *Projection, sequence uint64, e account.Effects) {
	t.Helper()
	if err := errors.Join(p.Push(t.Context(), sequence, e), p.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// wantRun checks the entries of an account after a number.
func wantRun(t interface {
	Helper()
	Fatalf(string, ...any)
}, p *Projection, c *chain, after, limit, first, last int,
) {
	t.Helper()
	run, err := p.EntriesAfter(context.Background(), c.id, uint64(after), limit)
	if err != nil || !c.check(run, first, last) {
		t.Fatalf("%d entries from %d, want %d to %d: %v", run.Len(), run.First, first, last, err)
	}
}

// blocksOf counts the blocks of an account.
func blocksOf(t *testing.T, p *Projection, id event.AccountID) int {
	t.Helper()
	heads, err := p.blockHeads(t.Context(), entryBlocks(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(heads)
}

// TestEachEntryIsStoredOnce: replicas of one stream are behind and ahead of each other, lose responses to commits, end at any moment,
// restart from any message up to the checkpoint, and join blocks. Every read has a part of the chain without a gap.
func TestEachEntryIsStoredOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := open(t)
		ctx := context.Background()
		stream := rapid.StringMatching(`BILLING_[0-9]{6}`).Draw(rt, "stream")
		chains := []*chain{newChain(1), newChain(2)}
		var journal []account.Effects
		for range rapid.IntRange(1, 30).Draw(rt, "messages") {
			journal = append(journal, entriesAt(noon, chains[0].next(rapid.IntRange(0, 3).Draw(rt, "first")), chains[1].next(rapid.IntRange(0, 1).Draw(rt, "second"))))
		}
		begin := func() replica { return beginReplica(rt, store, stream) }
		replicas := []replica{begin(), begin()}
		push := func(r *replica) {
			if err := r.p.Push(ctx, uint64(r.next+1), journal[r.next]); err != nil {
				rt.Fatal(err)
			}
			r.next++
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			r := &replicas[rapid.IntRange(0, 1).Draw(rt, "replica")]
			switch step := rapid.IntRange(0, 9).Draw(rt, "step"); {
			case step < 6 && r.next < len(journal):
				push(r)
			case step < 8:
				store.lose.Store(int32(step - 6))
				if err := r.p.write(ctx); err != nil && !errors.Is(err, views.ErrUnavailable) {
					rt.Fatal(err)
				}
				store.lose.Store(0)
			case step == 8:
				if err := r.p.joinEntries(ctx, event.AccountID(rapid.IntRange(1, 2).Draw(rt, "joined"))); err != nil {
					rt.Fatal(err)
				}
			case step == 9: // killed
				*r = begin()
			}
		}
		for i := range replicas {
			r := &replicas[i]
			for r.next < len(journal) {
				push(r)
			}
			if err := r.p.Flush(ctx); err != nil {
				rt.Fatal(err)
			}
			for _, c := range chains {
				if n := len(c.entries); n > 0 {
					after := rapid.IntRange(0, n-1).Draw(rt, "after")
					limit := rapid.IntRange(1, n).Draw(rt, "limit")
					wantRun(rt, r.p, c, after, limit, after+1, min(after+limit, n))
				}
			}
		}
	})
}

// TestEntriesThatAreNotStoredYetAreRead, after those that are.
func TestEntriesThatAreNotStoredYetAreRead(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	c, other := newChain(someone), newChain(someone+1)
	if run, err := p.EntriesAfter(t.Context(), someone, 0, 10); err != nil || run.First != 0 || run.Len() != 0 {
		t.Errorf("%+v, %v before the first", run, err)
	}
	pushedEffects(t, p, 1, entriesAt(noon, c.next(3)))
	if err := p.Push(t.Context(), 2, entriesAt(noon, c.next(2), other.next(4))); err != nil {
		t.Fatal(err)
	}
	wantRun(t, p, c, 0, 10, 1, 5)
	wantRun(t, p, c, 0, 4, 1, 4)
	wantRun(t, p, c, 4, 10, 5, 5)
	wantRun(t, p, other, 0, 10, 1, 4)
	if run, err := p.EntriesAfter(t.Context(), someone, 5, 10); err != nil || run.First != 0 {
		t.Errorf("%+v, %v after the last", run, err)
	}
}

// TestBlocksOfEntriesHaveAMaximum: one more begins another block, and pages begin anywhere in one.
func TestBlocksOfEntriesHaveAMaximum(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	full, more := newChain(someone), newChain(someone+1)
	pushedEffects(t, p, 1, entriesAt(noon, full.next(maxBlock), more.next(maxBlock+1)))
	if a, b := blocksOf(t, p, full.id), blocksOf(t, p, more.id); a != 1 || b != 2 {
		t.Errorf("%d and %d blocks", a, b)
	}
	wantRun(t, p, more, 0, 1000, 1, 1000)
	wantRun(t, p, more, maxBlock, 1000, maxBlock+1, maxBlock+1)
	after := rand.IntN(maxBlock)
	t.Log("after", after)
	wantRun(t, p, more, after, 1000, after+1, min(after+1000, maxBlock+1))
	wantRun(t, p, more, after, 1, after+1, after+1)
}

// TestSmallBlocksOfEntriesAreJoined by the sweep, also those of an account whose only changes are entries.
func TestSmallBlocksOfEntriesAreJoined(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	c := newChain(someone)
	joins := 0
	for sequence := range uint64(3 * joinBlocks) {
		pushedEffects(t, p, sequence+1, entriesAt(noon, c.next(1)))
		before := blocksOf(t, p, someone)
		sweptAt(t, p, noon, all)
		switch after := blocksOf(t, p, someone); {
		case after > joinBlocks+joinBlocks/2 || after < before && before < joinBlocks:
			t.Fatalf("%d blocks after %d commits, and %d after the sweep", before, sequence+1, after)
		case after < before:
			joins++
		}
	}
	if joins < 2 {
		t.Errorf("blocks were joined %d times", joins)
	}
	wantRun(t, p, c, 0, 1000, 1, 3*joinBlocks)
	wantRun(t, p, c, 7, 3, 8, 10)
}

// TestEntriesAreKeptSinceThePreviousMonth, or for the retention of requests if that is longer.
func TestEntriesAreKeptSinceThePreviousMonth(t *testing.T) {
	for _, c := range []struct{ now, retention, since string }{
		{"2026-11-28T06:00:00Z", "1h", "2026-10-01T00:00:00Z"},
		{"2026-11-01T00:00:00Z", "1h", "2026-10-01T00:00:00Z"},
		{"2026-10-31T23:59:59.999Z", "1h", "2026-09-01T00:00:00Z"},
		{"2027-01-15T00:00:00Z", "1080h", "2026-12-01T00:00:00Z"},
		{"2027-01-15T00:00:00Z", "1081h", "2026-11-30T23:00:00Z"},
	} {
		now, err1 := time.Parse(time.RFC3339, c.now)
		retention, err2 := time.ParseDuration(c.retention)
		since, err3 := time.Parse(time.RFC3339, c.since)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		if got := EntriesSince(now, retention); got != since.UnixMilli() {
			t.Errorf("%v: %v", c, time.UnixMilli(got).UTC())
		}
		p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
		chain := newChain(someone)
		pushedEffects(t, p, 1, entriesAt(since.UnixMilli()-1, chain.next(2)))
		pushedEffects(t, p, 2, entriesAt(since.UnixMilli(), chain.next(3)))
		if err := p.Sweep(t.Context(), now, retention, all); err != nil {
			t.Fatal(err)
		}
		wantRun(t, p, chain, 0, 10, 3, 5)
	}
}

// TestOldEntriesAreNotStored before the first that is: then all are, whichever clock goes back.
func TestOldEntriesAreNotStored(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	p.Skip(0, noon)
	c := newChain(someone)
	for i, millis := range []int64{noon - 1, noon, noon - 1} {
		pushedEffects(t, p, uint64(i+1), entriesAt(millis, c.next(1)))
	}
	wantRun(t, p, c, 0, 10, 2, 3)
}

// TestEntriesOfAnEndedAccountAreErased, and only these.
func TestEntriesOfAnEndedAccountAreErased(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	ended, other := newChain(someone), newChain(someone+1)
	pushedEffects(t, p, 1, entriesAt(noon, ended.next(3), other.next(2)))
	if err := p.Erase(t.Context(), ended.id); err != nil {
		t.Fatal(err)
	}
	if run, err := p.EntriesAfter(t.Context(), ended.id, 0, 10); err != nil || run.First != 0 {
		t.Errorf("%+v, %v", run, err)
	}
	wantRun(t, p, other, 0, 10, 1, 2)
}

// TestAMissingBlockEndsARun: what follows a gap is on no page with what precedes it.
func TestAMissingBlockEndsARun(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	c := newChain(someone)
	for i := range uint64(3) {
		pushedEffects(t, p, i+1, entriesAt(noon, c.next(2)))
	}
	heads, err := p.blockHeads(t.Context(), entryBlocks(), someone, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.replaceBlocks(t.Context(), entryBlocks(), heads[1:2], nil); err != nil {
		t.Fatal(err)
	}
	wantRun(t, p, c, 0, 10, 1, 2)
	wantRun(t, p, c, 2, 10, 5, 6)
}
