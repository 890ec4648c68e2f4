package projection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
	"quire.dev/services/billing/internal/account"
)

// Usage by day. A document holds an account's usage on one day, by quota key and API key, and its sequence is the last message
// counted. Changes are queued with their message's sequence. A batch sums a number of them, adds them to the stored documents,
// and moves the checkpoint. So a message is counted once, by whichever replicas fold it: if another replica has written a
// document since the checkpoint was read, its batch moved the checkpoint too, and this one conflicts with it.

const (
	// DaysKept is the retention of usage by day, in days.
	DaysKept = 400

	daysEvery = 5 * time.Second // between batches if only days are queued and nobody waits
	// maxDeltas bounds the queued changes, about 60 MB of them. From dayDeltas on they are written.
	maxDeltas = 1_000_000
	dayDeltas = 50_000
	batchDays = 2000 // documents of days in a batch
	loadDays  = 500  // documents read at a time
	sweepPage = 500
	dayMillis = 24 * 60 * 60 * 1000
)

// errDaysAhead: a day has counted messages beyond the checkpoint. Another replica has moved it meanwhile, or this one by a
// commit whose response was lost.
var errDaysAhead = errors.New("days are ahead of the checkpoint")

// usageItem is a change of a day by the message with a sequence.
type usageItem struct {
	sequence uint64
	account.UsageDelta
}

// dayOf identifies a document.
type dayOf struct {
	account event.AccountID
	day     uint32
}

func (d dayOf) id() string { return fmt.Sprintf("%s.%07d", d.account, d.day) }

// pushUsage queues the changes of a message. mu is held.
func (p *Projection) pushUsage(sequence uint64, deltas []account.UsageDelta) {
	for _, d := range deltas {
		if last := len(p.usage) - 1; last >= 0 && p.usage[last].sequence == sequence && p.usage[last].same(d) {
			p.usage[last].add(d)
			continue
		}
		p.usage = append(p.usage, usageItem{sequence, d})
	}
}

func (u *usageItem) same(d account.UsageDelta) bool {
	return u.Account == d.Account && u.Day == d.Day && u.QuotaKey == d.QuotaKey && u.Key == d.Key
}

func (u *usageItem) add(d account.UsageDelta) {
	u.Used, u.Overage, u.SpentMicros = u.Used+d.Used, u.Overage+d.Overage, u.SpentMicros+d.SpentMicros
}

// daysOf groups the changes of whole messages up to a sequence by document: of at least one message, and of up to batchDays
// documents. upTo is the last sequence included. mu is held.
func (p *Projection) daysOf(sequence uint64) (byDay map[dayOf][]usageItem, n int, upTo uint64) {
	byDay = map[dayOf][]usageItem{}
	for n < len(p.usage) && p.usage[n].sequence <= sequence {
		end := n + 1
		for end < len(p.usage) && p.usage[end].sequence == p.usage[n].sequence {
			end++
		}
		if n > 0 && len(byDay)+end-n > batchDays {
			return byDay, n, p.usage[n].sequence - 1
		}
		for _, u := range p.usage[n:end] {
			at := dayOf{u.Account, u.Day}
			byDay[at] = append(byDay[at], u)
		}
		n = end
	}
	return byDay, n, sequence
}

// addDays adds the documents of days to a batch that moves the checkpoint.
func (p *Projection) addDays(ctx context.Context, b *views.Batch, byDay map[dayOf][]usageItem) error {
	stored := make(map[string]*event.UsageDay, len(byDay))
	ids := make([]string, 0, len(byDay))
	for at := range byDay { // the order has no effect
		ids = append(ids, at.id())
	}
	for page := range slices.Chunk(ids, loadDays) {
		docs, err := p.store.Load(ctx, Days, page, views.Heads)
		if err != nil {
			return fmt.Errorf("load days: %w", err)
		}
		for _, d := range docs {
			if d.Seq > b.From {
				return errDaysAhead
			}
			day := &event.UsageDay{}
			if err := event.Decode(d.Head, day); err != nil {
				return err
			}
			stored[d.ID] = day
		}
	}
	for at, deltas := range byDay {
		day := stored[at.id()]
		if day == nil {
			day = &event.UsageDay{Day: at.day}
		}
		for _, u := range deltas {
			addTo(day, u)
		}
		head, err := event.Encode(day)
		if err != nil {
			return err
		}
		b.Puts = append(b.Puts, views.Put{Collection: Days, Doc: views.Doc{
			ID: at.id(), Seq: b.To, Head: head,
			Keys: views.Keys{{Name: "stream", Value: views.String(p.stream)}, {Name: "day", Value: views.Int(int64(at.day))}},
		}})
	}
	return nil
}

// addTo adds a change to a day.
func addTo(day *event.UsageDay, u usageItem) {
	added := &event.DayUsage{QuotaKey: uint32(u.QuotaKey), Key: u.Key}
	i, found := slices.BinarySearchFunc(day.Usage, added, compareUsage)
	if !found {
		day.Usage = slices.Insert(day.Usage, i, added)
	}
	d := day.Usage[i]
	d.Used, d.Overage, d.SpentMicros = d.Used+int64(u.Used), d.Overage+int64(u.Overage), d.SpentMicros+u.SpentMicros
	if d.Used == 0 && d.Overage == 0 && d.SpentMicros == 0 {
		day.Usage = slices.Delete(day.Usage, i, i+1)
	}
}

// compareUsage orders the usage of a day.
func compareUsage(a, b *event.DayUsage) int {
	return cmp.Or(cmp.Compare(a.QuotaKey, b.QuotaKey), cmp.Compare(a.Key, b.Key))
}

// Written requests the writing of all messages up to the sequence, and returns once the store holds them and their days. They
// must have been pushed.
func (p *Projection) Written(ctx context.Context, sequence uint64) error {
	p.mu.Lock()
	p.wanted = max(p.wanted, sequence)
	p.mu.Unlock()
	p.changes.Notify()
	err := p.gathering.Until(ctx, &p.changes, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.done >= sequence
	})
	if err != nil {
		return fmt.Errorf("wait for the days of %s: %w", p.stream, errors.Join(err, p.Failing()))
	}
	return nil
}

// UsageDays reads an account's days from the store, the first one first, without empty days.
func (p *Projection) UsageDays(ctx context.Context, id event.AccountID, from, to uint32) ([]*event.UsageDay, error) {
	if to < from || to-from >= DaysKept {
		return nil, fmt.Errorf("days %d to %d: %w", from, to, views.ErrInvalid)
	}
	var ids []string
	for day := from; day <= to; day++ {
		ids = append(ids, dayOf{id, day}.id())
	}
	docs, err := p.store.Load(ctx, Days, ids, views.Heads)
	if err != nil {
		return nil, fmt.Errorf("load days: %w", err)
	}
	days := make([]*event.UsageDay, 0, len(docs))
	for _, d := range docs {
		day := &event.UsageDay{}
		if err := event.Decode(d.Head, day); err != nil {
			return nil, err
		}
		// An audit reads days by their index: one that the index does not have is not shown either.
		indexed := d.Keys.Get("stream") == views.String(p.stream) && d.Keys.Get("day") == views.Int(int64(day.Day))
		if indexed && len(day.Usage) > 0 {
			days = append(days, day)
		}
	}
	slices.SortFunc(days, func(a, b *event.UsageDay) int { return cmp.Compare(a.Day, b.Day) })
	return days, nil
}

// SweepDays deletes the days of the stream's accounts past their retention, and returns how many.
func (p *Projection) SweepDays(ctx context.Context, nowMillis int64) (swept int, err error) {
	oldest := nowMillis/dayMillis - DaysKept + 1
	for {
		docs, err := p.store.List(ctx, Days, views.Query{Index: byStreamDay, Equal: []views.Value{views.String(p.stream)}, Limit: sweepPage})
		if err != nil {
			return swept, fmt.Errorf("list days: %w", err)
		}
		var b views.Batch
		for _, d := range docs {
			if d.Keys.Get("day").Int64() < oldest {
				b.Deletes = append(b.Deletes, views.Delete{Collection: Days, ID: d.ID, Seq: d.Seq})
			}
		}
		if len(b.Deletes) == 0 {
			return swept, nil
		}
		if err := p.store.Commit(ctx, b); err != nil {
			return swept, fmt.Errorf("delete old days: %w", err)
		}
		if swept += len(b.Deletes); len(docs) < sweepPage {
			return swept, nil
		}
	}
}
