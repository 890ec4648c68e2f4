package projection

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

const today = uint32(20_000)

type dayCount struct{ used, overage, spent int64 }

// oneMore is a request on a day.
func oneMore(id event.AccountID, day uint32, spent int64) account.UsageDelta {
	d := account.UsageDelta{Account: id, Day: day, QuotaKey: plan.FilesGet, Used: 1, SpentMicros: spent}
	if spent > 0 {
		d.Overage = 1
	}
	return d
}

// stored returns an account's stored days.
func stored(t interface{ Fatal(...any) }, p *Projection, id event.AccountID) map[uint32]dayCount {
	days, err := p.UsageDays(context.Background(), id, today-200, today+199)
	if err != nil {
		t.Fatal(err)
	}
	out := map[uint32]dayCount{}
	for _, d := range days {
		for _, u := range d.Usage {
			c := out[d.Day]
			out[d.Day] = dayCount{c.used + u.Used, c.overage + u.Overage, c.spent + u.SpentMicros}
		}
	}
	return out
}

// replica folds a drawn journal, of which message n is at index n-1.
type replica struct {
	p    *Projection
	next int // index of the message that it folds next
}

// beginReplica starts a replica at the checkpoint of the store, with a fold from an earlier snapshot.
func beginReplica(rt *rapid.T, store views.Store, stream string) replica {
	at, err := store.Checkpoint(context.Background(), stream)
	if err != nil {
		rt.Fatal(err)
	}
	from := 0
	if at > 0 {
		from = rapid.IntRange(0, int(at)).Draw(rt, "snapshot")
	}
	return replica{New(store, stream, at, 0, slog.New(slog.DiscardHandler)), from}
}

// TestDaysCountEveryMessageOnce: replicas of one stream are behind and ahead of each other, lose responses to commits, end at
// any moment, and restart from any message up to the checkpoint.
func TestDaysCountEveryMessageOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := open(t)
		stream := rapid.StringMatching(`BILLING_[0-9]{6}`).Draw(rt, "stream")
		accounts := []event.AccountID{1, 2, 3}
		var journal []account.Effects
		want := map[event.AccountID]map[uint32]dayCount{1: {}, 2: {}, 3: {}}
		for range rapid.IntRange(1, 30).Draw(rt, "messages") {
			var e account.Effects
			for range rapid.IntRange(0, 4).Draw(rt, "deltas") {
				d := oneMore(rapid.SampledFrom(accounts).Draw(rt, "account"), today-uint32(rapid.IntRange(0, 2).Draw(rt, "day")), int64(rapid.IntRange(0, 1).Draw(rt, "spent")))
				if rapid.IntRange(0, 4).Draw(rt, "void") == 0 {
					d.Used, d.Overage, d.SpentMicros = -d.Used, -d.Overage, -d.SpentMicros
				}
				e.Usage = append(e.Usage, d)
				c := want[d.Account][d.Day]
				c = dayCount{c.used + int64(d.Used), c.overage + int64(d.Overage), c.spent + d.SpentMicros}
				if want[d.Account][d.Day] = c; c == (dayCount{}) {
					delete(want[d.Account], d.Day)
				}
			}
			if rapid.Bool().Draw(rt, "ledger") {
				e.Ledger = effects(uint64(len(journal)+1), 1).Ledger
			}
			journal = append(journal, e)
		}
		ctx := context.Background()
		begin := func() replica { return beginReplica(rt, store, stream) }
		replicas := []replica{begin(), begin()}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			r := &replicas[rapid.IntRange(0, 1).Draw(rt, "replica")]
			switch step := rapid.IntRange(0, 9).Draw(rt, "step"); {
			case step < 6 && r.next < len(journal):
				if err := r.p.Push(ctx, uint64(r.next+1), journal[r.next]); err != nil {
					rt.Fatal(err)
				}
				r.next++
			case step < 8:
				if step == 7 {
					store.lose.Store(1)
				}
				if err := r.p.write(ctx); err != nil && !errors.Is(err, views.ErrUnavailable) {
					rt.Fatal(err)
				}
				store.lose.Store(0)
			case step == 9: // killed
				*r = begin()
			}
		}
		for i := range replicas {
			r := &replicas[i]
			for ; r.next < len(journal); r.next++ {
				if err := r.p.Push(ctx, uint64(r.next+1), journal[r.next]); err != nil {
					rt.Fatal(err)
				}
			}
			if err := r.p.Flush(ctx); err != nil {
				rt.Fatal(err)
			}
			for _, id := range accounts {
				if got := stored(rt, r.p, id); !maps.Equal(got, want[id]) {
					rt.Fatalf("account %d: %v, want %v", id, got, want[id])
				}
			}
		}
	})
}

// TestDaysAreWrittenWhenAskedFor, and not for each message.
func TestDaysAreWrittenWhenAskedFor(t *testing.T) {
	store := open(t)
	p := start(t, store, 0, 0)
	for sequence := uint64(1); sequence <= 1000; sequence++ {
		if err := p.Push(t.Context(), sequence, account.Effects{Usage: []account.UsageDelta{oneMore(someone, today, 2)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Written(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if got := stored(t, p, someone)[today]; got != (dayCount{1000, 1000, 2000}) {
		t.Fatalf("%+v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Written(ctx, 1001); err == nil {
		t.Fatal("a message that was not pushed is said to be written")
	}
}

// TestManyDaysAreWrittenInBatches of whole messages.
func TestManyDaysAreWrittenInBatches(t *testing.T) {
	store := open(t)
	p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	const messages, each = 5, batchDays/2 + 1
	for m := range uint64(messages) {
		e := effects(m+1, 1)
		for i := range uint64(each) {
			e.Usage = append(e.Usage, oneMore(event.AccountID(1+m*each+i), today, 0))
		}
		if err := p.Push(t.Context(), m+1, e); err != nil {
			t.Fatal(err)
		}
	}
	commits := 0
	for p.done < messages {
		if err := p.write(t.Context()); err != nil {
			t.Fatal(err)
		}
		if at, err := store.Checkpoint(t.Context(), "BILLING_0"); err != nil || at != p.done {
			t.Fatalf("checkpoint %d, %v", at, err)
		}
		commits++
	}
	if commits != messages || count(t, p) != messages {
		t.Fatalf("%d commits, %d entries", commits, count(t, p))
	}
	for i := range event.AccountID(messages * each) {
		if i%499 == 0 && stored(t, p, i+1)[today].used != 1 {
			t.Fatalf("account %d: %v", i+1, stored(t, p, i+1))
		}
	}
}

// TestOldDaysAreSwept: 400 days are kept, of each stream by itself.
func TestOldDaysAreSwept(t *testing.T) {
	store := open(t)
	p := New(store, "BILLING_0", 0, 0, slog.New(slog.DiscardHandler))
	other := New(store, "BILLING_1", 0, 0, slog.New(slog.DiscardHandler))
	oldest := today - DaysKept + 1
	for i := range uint64(3) {
		e := account.Effects{Usage: []account.UsageDelta{oneMore(someone, oldest-1+uint32(i), 0)}}
		for range 600 { // more than a page
			e.Usage = append(e.Usage, oneMore(event.AccountID(1000+len(e.Usage)), oldest-1+uint32(i), 0))
		}
		if err := p.Push(t.Context(), i+1, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Push(t.Context(), 1, account.Effects{Usage: []account.UsageDelta{oneMore(someone+1, oldest-1, 0)}}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Flush(t.Context()), other.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n, err := p.SweepDays(t.Context(), int64(today)*dayMillis); err != nil || n != 601 {
		t.Fatalf("%d swept, %v", n, err)
	}
	days, err := p.UsageDays(t.Context(), someone, oldest-1, today-1)
	if err != nil || len(days) != 2 || days[0].Day != oldest {
		t.Fatalf("%v, %v", days, err)
	}
	if days, err := other.UsageDays(t.Context(), someone+1, oldest-1, oldest-1); err != nil || len(days) != 1 {
		t.Fatalf("%v, %v", days, err)
	}
	if n, err := p.SweepDays(t.Context(), int64(today)*dayMillis); err != nil || n != 0 {
		t.Fatalf("%d swept again, %v", n, err)
	}
	if _, err := p.UsageDays(t.Context(), someone, oldest-1, today); !errors.Is(err, views.ErrInvalid) {
		t.Fatalf("401 days: %v", err)
	}
}
