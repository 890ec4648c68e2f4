package partition

import (
	"context"
	"errors"
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing/internal/projection"
)

const (
	defaultPage = 50
	maxPage     = 200
	// maxLedgerPage is larger, for an edge that exports the whole ledger or the request log.
	maxLedgerPage = 1000
	// aheadMillis bounds how far a caller's clock may be ahead of this service's.
	aheadMillis = 5000

	codeMalformed = "malformed"
)

// query answers one encoded event.Query. The answer reflects every message acknowledged before the query came, and for a settled
// one also how the account's calls in them ended.
func (p *Partition) query(ctx context.Context, payload []byte) ([]byte, error) {
	q := &event.Query{}
	if err := event.Decode(payload, q); err != nil {
		return nil, &rpc.Error{Code: codeMalformed, Message: err.Error()}
	}
	last, err := p.lastSequence(ctx, q)
	if err == nil {
		err = p.position.Until(ctx, last)
	}
	if err == nil && q.Settled {
		var settled bool
		if last, settled = p.awaitCalls(ctx, event.AccountID(q.Account), last); !settled {
			return event.Encode(status(event.QueryStatus_QUERY_PENDING))
		}
		err = p.position.Until(ctx, last) // the fold is ahead of the projection
	}
	if err != nil {
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: fmt.Sprintf("read the end of %s: %v", p.stream, err)}
	}
	answer, err := p.answerQuery(ctx, q, last)
	var refusal *rpc.Error
	if err != nil && !errors.As(err, &refusal) {
		return nil, &rpc.Error{Code: rpc.CodeUnavailable, Message: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	return event.Encode(answer)
}

// lastSequence is the end of the journal that a query must see. For accounts a majority of the journal's servers confirms it: a
// server that is cut off does not know that a key was replaced. Prices and the allowance of an anonymous network are public
// queries and decide nothing. Strangers must not be able to fill the journal with them.
func (p *Partition) lastSequence(ctx context.Context, q *event.Query) (uint64, error) {
	switch query := q.Query.(type) {
	case *event.Query_Entries:
		if query.Entries.GetContinued() {
			return p.journal.LastSequence(ctx)
		}
	case *event.Query_Allowance, *event.Query_Prices, *event.Query_Audit, *event.Query_Hold, *event.Query_Alerts,
		*event.Query_TopUps: // an edge asks for these again and again, and charges each once
		return p.journal.LastSequence(ctx)
	}
	return p.end.LastSequence(ctx)
}

func (p *Partition) answerQuery(ctx context.Context, q *event.Query, last uint64) (*event.QueryAnswer, error) {
	now := p.now().UnixMilli()
	if q.NowMs != 0 {
		now = min(q.NowMs, now+aheadMillis)
	}
	id := event.AccountID(q.Account)
	switch query := q.Query.(type) {
	case *event.Query_Usage:
		answer := p.usage(id, query.Usage, now)
		if query.Usage.GetAddresses() {
			if err := p.addAddresses(ctx, id, answer.GetUsage(), now); err != nil {
				return nil, err
			}
		}
		return answer, nil
	case *event.Query_Ledger:
		return p.ledger(ctx, id, query.Ledger, last)
	case *event.Query_Statement:
		return p.statement(ctx, id, query.Statement.GetPeriod(), now)
	case *event.Query_Explain:
		return p.explain(ctx, id, query.Explain)
	case *event.Query_Audit:
		return p.audit(ctx, query.Audit)
	case *event.Query_Allowance:
		return p.allowance(id, now), nil
	case *event.Query_Prices:
		switch {
		case query.Prices.GetApply() != nil:
			return p.applyPrices(ctx, query.Prices.GetApply())
		case query.Prices.GetList():
			return p.priceList(query.Prices.GetCount()), nil
		}
		return p.prices(), nil
	case *event.Query_AdminLog:
		return p.adminLog(ctx, query.AdminLog, last)
	case *event.Query_Accounts:
		return p.accounts(query.Accounts), nil
	case *event.Query_Hold:
		return p.hold(ctx, id, query.Hold, now)
	case *event.Query_UsageDays:
		return p.usageDays(ctx, id, query.UsageDays, last)
	case *event.Query_Recent:
		return p.recentRequests(ctx, id, query.Recent, now)
	case *event.Query_Entries:
		return p.entries(ctx, id, query.Entries)
	case *event.Query_Plan:
		return p.plan(id, now), nil
	case *event.Query_Payments:
		return p.payments(id, query.Payments), nil
	case *event.Query_TopUps:
		return p.topUps(query.TopUps), nil
	case *event.Query_Revenue:
		return p.revenue(query.Revenue), nil
	case *event.Query_Proof:
		return p.proof(ctx, id, query.Proof, now)
	case *event.Query_Webhooks:
		return p.webhooks(ctx, id, last)
	case *event.Query_Alerts:
		return p.alerts(ctx, id, query.Alerts, last)
	}
	return nil, &rpc.Error{Code: codeMalformed, Message: "query of an unknown kind"}
}

func status(s event.QueryStatus) *event.QueryAnswer { return &event.QueryAnswer{Status: s} }

func (p *Partition) usage(id event.AccountID, q *event.UsageQuery, now int64) *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.GetCheckKey() {
		if s := p.fold.Key(id, q, now); s != event.QueryStatus_QUERY_OK {
			return status(s)
		}
	}
	usage := p.fold.UsageAt(id, now)
	if usage == nil {
		return status(event.QueryStatus_QUERY_NOT_FOUND)
	}
	p.fold.Describe(usage, q, now)
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Usage{Usage: usage}
	return answer
}

// allowance answers for an anonymous network. Before the first price book nobody may create anything, so there is no allowance.
func (p *Partition) allowance(network event.AccountID, now int64) *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	allowance := p.fold.AllowanceAt(network, now)
	if allowance == nil {
		return status(event.QueryStatus_QUERY_NOT_FOUND)
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Allowance{Allowance: allowance}
	return answer
}

// prices answers with the last price book.
func (p *Partition) prices() *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	book := p.fold.Prices()
	if book == nil {
		return status(event.QueryStatus_QUERY_NOT_FOUND)
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Prices{Prices: book}
	return answer
}

// ledger reads from the read model, once it holds the messages that the query must see. It is pending while rows past their retention are
// recomputed.
func (p *Partition) ledger(ctx context.Context, id event.AccountID, q *event.LedgerQuery, last uint64) (*event.QueryAnswer, error) {
	cursor := string(q.GetCursor())
	if cursor != "" && !projection.ValidLedgerCursor(cursor) {
		return status(event.QueryStatus_QUERY_INVALID_CURSOR), nil
	}
	if !p.exists(id) {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	if err := p.projection.Wait(ctx, last); err != nil {
		return nil, err
	}
	limit := int(q.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	search := projection.Search{
		Type: q.GetType(), QuotaKey: q.GetQuotaKey(), FromMillis: q.GetFromMs(), ToMillis: q.GetToMs(),
		Request: q.GetRequestId(), Reason: q.GetReason(),
	}
	found, err := p.projection.Page(ctx, id, search, cursor, min(limit, maxLedgerPage))
	switch {
	case errors.Is(err, projection.ErrMaking):
		return status(event.QueryStatus_QUERY_PENDING), nil
	case isUnreadable(err):
		p.log.Error("old entries of a ledger can't be recomputed from the journal", "account", id.String(), "error", err)
		return status(event.QueryStatus_QUERY_UNREADABLE), nil
	case err != nil:
		return nil, err
	}
	page := &event.LedgerAnswer{Entries: found.Entries, NextCursor: []byte(found.Next)}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Ledger{Ledger: page}
	return answer, nil
}

// adminLog reads from the read model, as ledger does.
func (p *Partition) adminLog(ctx context.Context, q *event.AdminLogQuery, last uint64) (*event.QueryAnswer, error) {
	if before := q.GetBefore(); before != "" && !projection.ValidEntryID(before) {
		return status(event.QueryStatus_QUERY_INVALID_CURSOR), nil
	}
	if err := p.projection.Wait(ctx, last); err != nil {
		return nil, err
	}
	limit := int(q.GetLimit())
	if limit == 0 {
		limit = defaultPage
	}
	entries, more, err := p.projection.AdminPage(ctx, q.GetBefore(), min(limit, maxPage))
	if err != nil {
		return nil, err
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_AdminLog{AdminLog: &event.AdminLogAnswer{Entries: entries, More: more}}
	return answer, nil
}

// accounts omits accounts of other partitions.
func (p *Partition) accounts(q *event.AccountsQuery) *event.QueryAnswer {
	found := &event.AccountsAnswer{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range q.GetAccounts()[:min(len(q.GetAccounts()), maxPage)] {
		if s := p.fold.Summary(id); s != nil {
			found.Accounts = append(found.Accounts, s)
		}
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Accounts{Accounts: found}
	return answer
}

func (p *Partition) exists(id event.AccountID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fold.Exists(id)
}

func (p *Partition) statement(ctx context.Context, id event.AccountID, period string, now int64) (*event.QueryAnswer, error) {
	p.mu.Lock()
	s, held := p.fold.StatementAt(id, period, now)
	left := p.fold.Sequence() // the month's record was pushed no later than with this message
	p.mu.Unlock()
	if !held {
		err := p.position.Until(ctx, left)
		if err == nil {
			err = p.projection.Wait(ctx, left)
		}
		if err == nil {
			s, err = p.projection.Statement(ctx, id, period)
		}
		if err != nil {
			return nil, err
		}
	}
	if s == nil {
		return status(event.QueryStatus_QUERY_NOT_FOUND), nil
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Statement{Statement: s}
	return answer, nil
}
