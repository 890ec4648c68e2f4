package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// EntriesSince is the time since which entries are kept: for the retention, and at least since the beginning of the previous month.
func EntriesSince(now time.Time, retention time.Duration) int64 {
	now = now.UTC()
	month := time.Date(now.Year(), now.Month()-1, 1, 0, 0, 0, 0, time.UTC)
	return min(now.Add(-retention).UnixMilli(), month.UnixMilli())
}

// Sweep deletes the stream's blocks past their retention, and the blocks of accounts that no longer exist. For accounts with new
// blocks it also deletes the requests beyond the number kept, and joins small blocks.
func (p *Projection) Sweep(ctx context.Context, now time.Time, retention time.Duration, exists func(event.AccountID) bool) error {
	if err := p.sweepOld(ctx, requestBlocks(), now.Add(-retention).UnixMilli()); err != nil {
		return err
	}
	if err := p.sweepOld(ctx, entryBlocks(), EntriesSince(now, retention)); err != nil {
		return err
	}
	p.mu.Lock()
	due := p.requests.due
	p.requests.due = map[event.AccountID]bool{}
	for id := range due {
		p.requests.written[id] = added{}
	}
	var ended []event.AccountID
	for id := range p.requests.written {
		ended = append(ended, id)
	}
	p.mu.Unlock()
	var errs []error
	for id := range due { // the order has no effect
		if err := errors.Join(p.trimRequests(ctx, id), p.joinEntries(ctx, id)); err != nil {
			errs = append(errs, err)
			p.mu.Lock()
			p.requests.due[id] = true
			p.mu.Unlock()
		}
	}
	for _, id := range slices.DeleteFunc(ended, exists) {
		errs = append(errs, p.Erase(ctx, id)) // a report came late
	}
	return errors.Join(errs...)
}

// sweepOld deletes the blocks from before a time.
func (p *Projection) sweepOld(ctx context.Context, kind blockKind, oldest int64) error {
	query := views.Query{Index: byStream, Equal: []views.Value{views.String(p.stream)}, Limit: sweepPage}
	for {
		docs, err := p.store.List(ctx, kind.collection, query)
		if err != nil {
			return fmt.Errorf("list %s: %w", kind.collection, err)
		}
		n := slices.IndexFunc(docs, func(d views.Doc) bool { return d.Keys.Get("time").Int64() >= oldest })
		if n < 0 {
			n = len(docs)
		}
		if err := p.replaceBlocks(ctx, kind, docs[:n], nil); err != nil {
			return err
		}
		if n < len(docs) || len(docs) < sweepPage {
			return nil
		}
	}
}

// trimRequests deletes the blocks of an account beyond the number of requests kept, and joins small ones.
func (p *Projection) trimRequests(ctx context.Context, id event.AccountID) error {
	heads, err := p.blockHeads(ctx, requestBlocks(), id, 0)
	if err != nil {
		return err
	}
	kept, from := uint64(0), len(heads)
	for from > 0 && kept < RequestsKept {
		from--
		kept += records(heads[from])
	}
	if err := p.replaceBlocks(ctx, requestBlocks(), heads[:from], nil); err != nil {
		return err
	}
	return p.joinSmall(ctx, requestBlocks(), heads[from:], func(blocks []views.Doc) ([]views.Put, error) {
		j, err := join(blocks)
		if err != nil {
			return nil, err
		}
		return p.blocks(id, j.seq, j.sorted(), false)
	})
}

// Erase deletes all requests, reports and entries of an account.
func (p *Projection) Erase(ctx context.Context, id event.AccountID) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	p.requests.reports = slices.DeleteFunc(p.requests.reports, func(r Report) bool { return r.Account == id })
	delete(p.requests.written, id)
	delete(p.requests.due, id)
	p.mu.Unlock()
	for _, kind := range []blockKind{requestBlocks(), entryBlocks()} {
		heads, err := p.blockHeads(ctx, kind, id, 0)
		if err == nil {
			err = p.replaceBlocks(ctx, kind, heads, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
