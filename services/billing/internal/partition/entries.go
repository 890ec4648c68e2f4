package partition

import (
	"context"

	"quire.dev/pkg/event"
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
	page := &event.EntriesAnswer{Newest: newest, After: q.GetAfter()}
	kept, err := p.projection.EntriesAfter(ctx, id, 0, 1)
	if err != nil {
		return nil, err
	}
	page.Kept = kept.First
	if page.Newest > 0 {
		page.NewestHash = hash[:]
	}
	if q.After == nil {
		page.After = newest
		if kept.First > 0 {
			page.After = kept.First - 1
		}
	}
	if page.After == newest {
		page.AfterHash = page.NewestHash
	} else if err := p.addEntries(ctx, id, q, page); err != nil {
		return nil, err
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Entries{Entries: page}
	return answer, nil
}

// addEntries adds the entries after page.After, up to page.Newest.
func (p *Partition) addEntries(ctx context.Context, id event.AccountID, q *event.EntriesQuery, page *event.EntriesAnswer) error {
	if page.After > page.Newest {
		return nil
	}
	limit := uint64(q.GetLimit())
	if limit == 0 {
		limit = defaultEntries
	}
	run, err := p.projection.EntriesAfter(ctx, id, page.After, int(min(limit, maxEntries, page.Newest-page.After)))
	if err != nil {
		return err
	}
	if run.First == page.After+1 {
		page.AfterHash, page.Entries = run.Before[:], run.Data
		return nil
	}
	page.Kept = run.First // earlier ones are being deleted
	return nil
}
