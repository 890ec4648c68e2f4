package projection

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// broken is a store that fails at random, before or after it has committed.
type broken struct {
	views.Store
	random *rand.Rand // nil: it works
}

var errBroken = errors.New("broken")

func (b *broken) Commit(ctx context.Context, batch views.Batch) error {
	if b.random == nil || b.random.IntN(3) > 0 {
		return b.Store.Commit(ctx, batch)
	}
	if b.random.IntN(2) > 0 {
		return errors.Join(b.Store.Commit(ctx, batch), errBroken)
	}
	return errBroken
}

// journalled are the effects of messages, from which rows are made again.
type journalled map[uint64]account.Effects

// again returns the rows of some messages up to last. Of entries it changes the ids, as the fold of one account does.
func (j journalled) again(random *rand.Rand) Again {
	return func(_ context.Context, id event.AccountID, last uint64) (rows []MadeRow, from uint64, err error) {
		if random.IntN(4) == 0 {
			return nil, 0, ErrMaking
		}
		from = last - min(last, 1+random.Uint64N(500))
		for sequence := from + 1; sequence <= last; sequence++ {
			var e account.Effects
			for i, entry := range j[sequence].Ledger {
				entry = proto.CloneOf(entry)
				entry.Id = account.LedgerID(sequence, uint32(i))
				e.Ledger = append(e.Ledger, entry)
			}
			made, err := MadeRows(id, sequence, e)
			if err != nil {
				return nil, 0, err
			}
			rows = append(rows, made...)
		}
		return rows, from, nil
	}
}

var firstOfYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// pushYear pushes entries of two accounts, from the beginning of a year on, some of requests that were admitted messages before.
func (j journalled) pushYear(t testing.TB, p *Projection, random *rand.Rand, messages int) {
	t.Helper()
	balances := map[event.AccountID]int64{}
	const lag = 5 // messages, which are less than aheadMillis where 2,000 make a year
	for sequence := uint64(1); sequence <= uint64(messages); sequence++ {
		at := firstOfYear.Add(365 * 24 * time.Hour / time.Duration(messages) * time.Duration(sequence)).UnixMilli()
		var e account.Effects
		ordinal := random.Uint32N(3)
		for range random.IntN(4) * random.IntN(4) {
			id := someone + event.AccountID(random.IntN(2))
			balances[id] += 5
			entry := &event.LedgerEntry{
				Id: account.LedgerID(sequence, ordinal), Account: uint64(id), TimeMs: at, SettledMs: at, AmountMicros: 5, BalanceMicros: balances[id],
				Type: event.LedgerType(1 + random.IntN(4)),
			}
			if random.IntN(2) > 0 {
				entry.AdmittedBefore, entry.AdmittedIndex = random.Uint64N(min(sequence, lag)), 1+random.Uint64N(3)
			}
			e.Ledger = append(e.Ledger, entry)
			ordinal += 1 + random.Uint32N(300)
		}
		j[sequence] = e
		if err := p.Push(t.Context(), sequence, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// entriesOf reads all pages of a search.
func entriesOf(t *testing.T, p *Projection, id event.AccountID, s Search, limit int) (list []*event.LedgerEntry) {
	t.Helper()
	for cursor := ""; ; {
		page, err := p.Page(t.Context(), id, s, cursor, limit)
		if errors.Is(err, ErrMaking) {
			continue
		}
		if err != nil || len(page.Entries) > limit || page.Next != "" && !ValidLedgerCursor(page.Next) {
			t.Fatalf("%d entries, next %q: %v", len(page.Entries), page.Next, err)
		}
		list = append(list, page.Entries...)
		if cursor = page.Next; cursor == "" {
			return list
		}
	}
}

// TestAgingKeepsEachEntry: pages of every search are the same whatever is aged, however often it is interrupted, and whether rows are deleted.
func TestAgingKeepsEachEntry(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	store := &broken{Store: open(t)}
	p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	j := journalled{}
	j.pushYear(t, p, random, 2000)
	p.MakeAgain(j.again(random))
	middle := firstOfYear.AddDate(0, random.IntN(12), random.IntN(28)).UnixMilli()
	searches := []Search{{}, {Type: 2}, {ToMillis: middle}, {FromMillis: middle}, {FromMillis: middle - 3*dayMillis, ToMillis: middle + dayMillis}}
	var want [2][][]*event.LedgerEntry
	look := func(see func(i, k int, list []*event.LedgerEntry)) {
		for i := range want {
			for k, s := range searches {
				see(i, k, entriesOf(t, p, someone+event.AccountID(i), s, 50+random.IntN(900)))
			}
		}
	}
	look(func(i, _ int, list []*event.LedgerEntry) { want[i] = append(want[i], list) })
	now := time.Now()
	for before := firstOfYear.AddDate(0, 2, 0); before.Year() == firstOfYear.Year(); before = before.AddDate(0, 6, 0) {
		for left := true; left; {
			left = false
			for i := range want {
				store.random = random
				more, err := p.AgeLedger(t.Context(), someone+event.AccountID(i), before, now)
				store.random = nil
				if err != nil && !errors.Is(err, errBroken) {
					t.Fatal(err)
				}
				left = left || more || err != nil
			}
			now = now.Add(time.Duration(random.Int64N(int64(3 * time.Hour))))
			look(func(i, k int, list []*event.LedgerEntry) {
				if !slices.EqualFunc(list, want[i][k], func(a, b *event.LedgerEntry) bool { return proto.Equal(a, b) }) {
					t.Fatalf("before %s, search %d has %d entries instead of %d", before, k, len(list), len(want[i][k]))
				}
			})
		}
		err := EachLedgerRow(t.Context(), store, someone, 0, func(doc views.Doc) error {
			if row, err := AgedRowOf(doc); err != nil || row.settled < before.UnixMilli() {
				t.Errorf("the row of message %d is not deleted: %v", row.Sequence, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRowsAreDeletedAfterTheirBlockIsKnown: on both sides of agedDelay.
func TestRowsAreDeletedAfterTheirBlockIsKnown(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	j := journalled{}
	j.pushYear(t, p, rand.New(rand.NewPCG(1, 2)), 40)
	now := time.Now()
	for _, c := range []struct {
		after   time.Duration
		left    bool
		deleted bool
	}{{0, true, false}, {agedDelay - time.Millisecond, true, false}, {agedDelay, false, true}, {2 * agedDelay, false, true}} {
		left, err := p.AgeLedger(t.Context(), someone, firstOfYear.AddDate(2, 0, 0), now.Add(c.after))
		if err != nil || left != c.left {
			t.Fatalf("after %s: left %v, %v", c.after, left, err)
		}
		rows, err := p.entries(t.Context(), someone, span{}, 1)
		if err != nil || (len(rows) == 0) != c.deleted {
			t.Fatalf("after %s: %v, %v", c.after, rows, err)
		}
	}
}

// TestOtherRowsAreRefused: a page fails rather than show entries that are not those that were stored, or leave some out.
func TestOtherRowsAreRefused(t *testing.T) {
	p := New(open(t), "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	random := rand.New(rand.NewPCG(3, 4))
	j := journalled{}
	j.pushYear(t, p, random, 40)
	if _, err := p.AgeLedger(t.Context(), someone, firstOfYear.AddDate(2, 0, 0), time.Now()); err != nil {
		t.Fatal(err)
	}
	lost := errors.New("the journal has lost it")
	for name, change := range map[string]func([]MadeRow) ([]MadeRow, error){
		"an amount": func(r []MadeRow) ([]MadeRow, error) {
			return edited(t, r, func(e *event.LedgerEntry) { e.AmountMicros++ }), nil
		},
		"a reason": func(r []MadeRow) ([]MadeRow, error) {
			return edited(t, r, func(e *event.LedgerEntry) { e.Reason = "x" }), nil
		},
		"one less":     func(r []MadeRow) ([]MadeRow, error) { return r[:len(r)-1], nil },
		"none":         func([]MadeRow) ([]MadeRow, error) { return nil, nil },
		"the sequence": func(r []MadeRow) ([]MadeRow, error) { r[len(r)-1].Sequence--; return r, nil },
		"lost":         func([]MadeRow) ([]MadeRow, error) { return nil, lost },
	} {
		p.MakeAgain(func(ctx context.Context, id event.AccountID, last uint64) ([]MadeRow, uint64, error) {
			rows, from, err := j.again(random)(ctx, id, last)
			if err == nil {
				rows, err = change(rows)
			}
			return rows, from, err
		})
		page, err := p.Page(t.Context(), someone, Search{}, "", 10)
		for errors.Is(err, ErrMaking) {
			page, err = p.Page(t.Context(), someone, Search{}, "", 10)
		}
		if len(page.Entries) > 0 || !errors.Is(err, ErrOtherRows) && !errors.Is(err, lost) {
			t.Errorf("%s: %d entries, %v", name, len(page.Entries), err)
		}
	}
}

func edited(t *testing.T, rows []MadeRow, edit func(*event.LedgerEntry)) []MadeRow {
	t.Helper()
	last := &rows[len(rows)-1]
	row := &event.LedgerEntry{}
	if err := event.Decode(last.Head, row); err != nil {
		t.Fatal(err)
	}
	edit(row)
	var err error
	if last.Head, err = event.Encode(row); err != nil {
		t.Fatal(err)
	}
	return rows
}
