package partition

import "quire.dev/pkg/event"

func (p *Partition) plan(id event.AccountID, now int64) *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.fold.PlanAt(id, now)
	if found == nil {
		return status(event.QueryStatus_QUERY_NOT_FOUND)
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Plan{Plan: found}
	return answer
}

func (p *Partition) payments(id event.AccountID, q *event.PaymentsQuery) *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	page := p.fold.Payments(id, q)
	if page == nil {
		return status(event.QueryStatus_QUERY_NOT_FOUND)
	}
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Payments{Payments: page}
	return answer
}

func (p *Partition) topUps(q *event.TopUpsQuery) *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_TopUps{TopUps: p.fold.TopUps(q)}
	return answer
}

func (p *Partition) revenue(q *event.RevenueQuery) *event.QueryAnswer {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := status(event.QueryStatus_QUERY_OK)
	answer.Answer = &event.QueryAnswer_Revenue{Revenue: p.fold.Revenue(q)}
	return answer
}
