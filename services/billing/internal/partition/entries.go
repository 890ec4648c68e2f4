package partition

import (
	"cmp"
	"context"

	"quire.dev/pkg/event"
	"quire.dev/services/billing/internal/projection"
)

const (
	defaultEntries = 100
	maxEntries     = 1000
)

// entries answers with a page of an account's chain. Where the entry after q.After is not there, the page is empty and has no hash: it
// is no longer kept, or does not exist yet.
func (p *Partition) entries(ctx context.Context, id event.AccountID, q *event.EntriesQuery) (*event.QueryAnswer, error) {
	p.mu.Lock()
	exists, sequence := p.fold.Exists(id), p.fold.Sequence()
	newest, hash := p.fold.Receipt(id)
	p.mu.Unlock()
	if !exists {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	if err := p.position.Until(ctx, sequence); err != nil { // the fold is ahead of the projection
		return nil, err
	}
	page := &event.EntriesAnswer{Newest: newest}
	if newest > 0 {
		page.NewestHash = hash[:]
	}
	run, err := p.entriesKept(ctx, id, q, page)
	if err != nil {
		return nil, err
	}
	switch {
	case page.After == newest:
		page.AfterHash = page.NewestHash
	case page.After < newest && run.First == page.After+1:
		page.AfterHash = run.Before[:]
		page.Entries = run.Data[:min(uint64(len(run.Data)), (newest-page.After)*event.EntryBytes)]
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Entries{Entries: page}
	return answer, nil
}

// entriesKept returns the entries that are kept of those that a query asks for, and sets After and Kept. Without a number to begin
// after they are from the same read as the first that is kept, since entries are deleted meanwhile.
func (p *Partition) entriesKept(ctx context.Context, id event.AccountID, q *event.EntriesQuery, page *event.EntriesAnswer) (run projection.EntryRun, err error) {
	limit := int(min(cmp.Or(q.GetLimit(), defaultEntries), maxEntries))
	if q.After == nil {
		if run, err = p.projection.EntriesAfter(ctx, id, 0, limit); err != nil {
			return run, err
		}
		page.Kept, page.After = run.First, page.Newest
		if run.First > 0 {
			page.After = run.First - 1
		}
		return run, nil
	}
	first, err := p.projection.EntriesAfter(ctx, id, 0, 1)
	if err != nil {
		return run, err
	}
	page.Kept, page.After = first.First, q.GetAfter()
	if page.After >= page.Newest {
		return run, nil
	}
	if run, err = p.projection.EntriesAfter(ctx, id, page.After, limit); err == nil && run.First != page.After+1 {
		page.Kept = run.First // earlier ones are being deleted
	}
	return run, err
}
