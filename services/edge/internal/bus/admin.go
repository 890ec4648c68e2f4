package bus

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"quire.dev/pkg/event"
	"quire.dev/pkg/num"
)

// AdminLog asks for a page of the admin log, newest first. before is the id of the previous page's last entry, empty for the
// first page. The page is nil if before is not an entry's id. It includes every action that was answered before the call.
func (b *Bus) AdminLog(ctx context.Context, before string, limit int) (*event.AdminLogAnswer, error) {
	query := &event.Query{
		NowMs: b.Now().UnixMilli(),
		Query: &event.Query_AdminLog{AdminLog: &event.AdminLogQuery{Limit: num.Uint32(limit), Before: before}},
	}
	pages := make([]*event.AdminLogAnswer, b.cfg.Partitions)
	err := b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		answer := &event.QueryAnswer{}
		if err := b.ask(ctx, event.QuerySubject(p), query, answer, attemptTimeout); err != nil {
			return err
		}
		switch page := answer.GetAdminLog(); {
		case answer.Status == event.QueryStatus_QUERY_INVALID_CURSOR:
		case answer.Status != event.QueryStatus_QUERY_OK || page == nil:
			return unavailable(errAnswer)
		default:
			pages[p] = page
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return mergeAdminLogs(pages, limit), nil
}

// mergeAdminLogs merges the pages of all partitions.
func mergeAdminLogs(pages []*event.AdminLogAnswer, limit int) *event.AdminLogAnswer {
	out := &event.AdminLogAnswer{}
	for _, page := range pages {
		if page == nil {
			return nil
		}
		out.Entries = append(out.Entries, page.Entries...)
		out.More = out.More || page.More
	}
	slices.SortFunc(out.Entries, func(a, b *event.AdminEntry) int { return cmp.Compare(b.Id, a.Id) })
	if len(out.Entries) > limit {
		out.Entries, out.More = out.Entries[:limit], true
	}
	return out
}

// Accounts asks for the list entries of some accounts, without unknown ones.
func (b *Bus) Accounts(ctx context.Context, ids []event.AccountID) (map[event.AccountID]*event.AccountSummary, error) {
	asked := make([][]uint64, b.cfg.Partitions)
	for _, id := range ids {
		p := event.AccountPartition(id, b.cfg.Partitions)
		asked[p] = append(asked[p], uint64(id))
	}
	var mu sync.Mutex
	found := make(map[event.AccountID]*event.AccountSummary, len(ids))
	err := b.scatter(ctx, b.cfg.QueryTimeout, func(ctx context.Context, p int) error {
		if len(asked[p]) == 0 {
			return nil
		}
		answer := &event.QueryAnswer{}
		query := &event.Query{
			NowMs: b.Now().UnixMilli(), Query: &event.Query_Accounts{Accounts: &event.AccountsQuery{Accounts: asked[p]}},
		}
		if err := b.ask(ctx, event.QuerySubject(p), query, answer, attemptTimeout); err != nil {
			return err
		}
		if answer.Status != event.QueryStatus_QUERY_OK || answer.GetAccounts() == nil {
			return unavailable(errAnswer)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range answer.GetAccounts().Accounts {
			found[event.AccountID(a.Account)] = a
		}
		return nil
	})
	return found, err
}
