package projection

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/views"
)

// SweepRequests deletes the stream's blocks past their retention, and the blocks of accounts that no longer exist. For accounts with
// new requests it also deletes the blocks beyond the number kept, and joins small ones.
func (p *Projection) SweepRequests(ctx context.Context, now time.Time, retention time.Duration, exists func(event.AccountID) bool) error {
	oldest := now.Add(-retention).UnixMilli()
	query := views.Query{Index: byStream, Equal: []views.Value{views.String(p.stream)}, Limit: sweepPage}
	for {
		docs, err := p.store.List(ctx, Requests, query)
		if err != nil {
			return fmt.Errorf("list requests: %w", err)
		}
		n := slices.IndexFunc(docs, func(d views.Doc) bool { return d.Keys.Get("time").Int64() >= oldest })
		if n < 0 {
			n = len(docs)
		}
		if err := p.replaceBlocks(ctx, docs[:n], nil); err != nil {
			return err
		}
		if n < len(docs) || len(docs) < sweepPage {
			break
		}
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
		if err := p.trimRequests(ctx, id); err != nil {
			errs = append(errs, err)
			p.mu.Lock()
			p.requests.due[id] = true
			p.mu.Unlock()
		}
	}
	for _, id := range slices.DeleteFunc(ended, exists) {
		errs = append(errs, p.EraseRequests(ctx, id)) // a report came late
	}
	return errors.Join(errs...)
}

// trimRequests deletes the blocks of an account beyond the number of requests kept, and joins small ones.
func (p *Projection) trimRequests(ctx context.Context, id event.AccountID) error {
	heads, err := p.blockHeads(ctx, id, 0)
	if err != nil {
		return err
	}
	kept, from := uint64(0), len(heads)
	for from > 0 && kept < RequestsKept {
		from--
		n, _ := binary.Uvarint(heads[from].Head)
		kept += n
	}
	if err := p.replaceBlocks(ctx, heads[:from], nil); err != nil {
		return err
	}
	if heads = lastSmall(heads[from:]); len(heads) < joinBlocks {
		return nil
	}
	blocks, err := p.loadBlocks(ctx, heads)
	if err != nil || len(blocks) < len(heads) { // another replica joins them
		return err
	}
	j, err := join(blocks)
	if err != nil {
		return err
	}
	puts, err := p.blocks(id, j.seq, j.sorted(), false)
	if err != nil {
		return err
	}
	return p.replaceBlocks(ctx, blocks, puts)
}

// lastSmall returns the small blocks at the end of a list that are of the same day, so that joining them keeps nothing for longer.
func lastSmall(heads []views.Doc) []views.Doc {
	from := len(heads)
	for day := int64(-1); from > 0; from-- {
		n, _ := binary.Uvarint(heads[from-1].Head)
		of := heads[from-1].Keys.Get("time").Int64() / dayMillis
		if n >= smallBlock || day >= 0 && of != day {
			break
		}
		day = of
	}
	return heads[from:]
}

// replaceBlocks deletes blocks, and adds others in the same commit.
func (p *Projection) replaceBlocks(ctx context.Context, docs []views.Doc, puts []views.Put) error {
	if len(docs) == 0 {
		return nil
	}
	b := views.Batch{Puts: puts}
	for _, d := range docs {
		b.Deletes = append(b.Deletes, views.Delete{Collection: Requests, ID: d.ID, Seq: d.Seq})
	}
	if err := p.store.Commit(ctx, b); err != nil {
		return fmt.Errorf("replace blocks of requests: %w", err)
	}
	return nil
}

// EraseRequests deletes all requests and reports of an account.
func (p *Projection) EraseRequests(ctx context.Context, id event.AccountID) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	p.requests.reports = slices.DeleteFunc(p.requests.reports, func(r Report) bool { return r.Account == id })
	delete(p.requests.written, id)
	delete(p.requests.due, id)
	p.mu.Unlock()
	heads, err := p.blockHeads(ctx, id, 0)
	if err != nil {
		return err
	}
	return p.replaceBlocks(ctx, heads, nil)
}
