package account

import (
	"math"

	"quire.dev/pkg/event"
)

// Shown is what can be shown of an account, as docs/journal.md lists it: its usage with keys, caps and grants, and the statements of
// the previous and the current month that it has. plan is nil unless it had a subscription or has a rule for top-ups. All is nil without
// such an account, and as of the last message folded.
func (r *reader) Shown(id event.AccountID) (u *event.UsageAnswer, plan *event.PlanAnswer, statements []*event.StatementAnswer) {
	if u = r.UsageAt(id, 0); u == nil {
		return nil, nil, nil
	}
	r.Describe(u, &event.UsageQuery{Keys: true, Grants: math.MaxUint32}, 0)
	if p := r.PlanAt(id, 0); len(r.principals.accounts[uint64(id)].subscriptions) > 0 || p.TopUp != nil {
		plan = p
	}
	this := monthOf(u.PeriodStartMs)
	for _, m := range []month{monthNumber(this.number - 1), this} {
		if s, held := r.StatementAt(id, m.period(), 0); held && s != nil {
			statements = append(statements, s)
		}
	}
	return u, plan, statements
}
