package partition

import (
	"fmt"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/recent"
)

// compareRequests compares the lists of recent requests that accounts are shown.
func (a *auditing) compareRequests(fold *account.Fold, live position, replayed *recent.Log) {
	compares := func(id uint64, r *recent.Record) bool {
		return r.TimeMillis > live.millis-recent.KeepMillis && fold.Keeps(id) && (a.options.account == 0 || uint64(a.options.account) == id)
	}
	live.requests.Compare(replayed, compares, func(id uint64, expected, have *recent.Record) {
		f := found{table: tableRequests}
		add := func(request event.RequestID, field, expected, found string) {
			f.list = append(f.list, &event.AuditDifference{
				Table: tableRequests, Account: id, Row: request.String(), Field: field, Expected: expected, Found: found,
			})
		}
		switch {
		case expected == nil:
			add(have.Request, "", "missing", "present")
		case have == nil:
			add(expected.Request, "", "present", "missing")
		default:
			for i, field := range requestFields(have) {
				if want := requestFields(expected)[i]; want != field {
					add(have.Request, field.name, want.value, field.value)
				}
			}
		}
		a.part = append(a.part, f)
	})
	a.requests = live.requests.Len()
}

type requestField struct{ name, value string }

func requestFields(r *recent.Record) []requestField {
	return []requestField{
		{"timeMs", fmt.Sprint(r.TimeMillis)},
		{"quotaKey", plan.QuotaKey(r.QuotaKey).String()},
		{"key", fmt.Sprint(r.Key)},
		{"decision", event.Decision(r.Decision).String()},
		{"status", account.Status(r.Status)},
		{"held", fmt.Sprint(r.Status == recent.Held)},
		{"charge", event.ChargeSource(r.Charge).String()},
		{"costMicros", fmt.Sprint(r.CostMicros)},
		{"remaining", fmt.Sprint(r.Remaining)},
	}
}
