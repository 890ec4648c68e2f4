package account

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// A busy account makes more than 2³² requests of a quota key in a month: nothing begins again there, and a void is given back.
func TestCountersGoBeyond32Bits(t *testing.T) {
	const key, wrap = plan.LiteGet, uint64(1) << 32
	for name, limit := range map[string]int64{"free": int64(wrap) + 10, "paid": 3} {
		t.Run(name, func(t *testing.T) {
			book := plan.Published(10)
			book.Plans[plan.Pro].Terms[key] = plan.Term{Limit: limit, Price: 10, Overage: true}
			h := newHistory(t, book)
			h.account(alice, plan.Pro)
			h.grant(alice, 1_000_000, 0)
			first := h.admission(alice, key)
			h.want(first, admitted)
			h.served(first)
			a := h.fold.principals.accounts[alice]
			a.current.used[key] = wrap - 2
			if name == "paid" {
				c := a.current.charging()
				c.overage[key], c.paid[key] = wrap-2-uint64(limit), 0
			}
			a.ring() // its keys count on their own
			for range 4 {
				h.fold = restored(t, h.fold)
				one, other := h.admission(alice, key), h.admission(alice, key)
				h.want(one, admitted)
				h.want(other, admitted)
				h.served(one)
				h.failed(other)
			}
			a = h.fold.principals.accounts[alice]
			l := a.ring().lineages[0]
			u := h.usedBy(alice, key)
			if u.Used != wrap+2 || l.used[key] != wrap+2 {
				t.Errorf("%d used, %d of the key, want %d", u.Used, l.used[key], wrap+2)
			}
			if name == "paid" && (u.Overage != wrap+2-uint64(limit) || u.SpentMicros != 40) {
				t.Errorf("%d over quota for %d micro-credits", u.Overage, u.SpentMicros)
			}
			var statement *event.KeyUsage
			for _, of := range h.fold.prices.statement(a, h.fold.month).Usage {
				if of.QuotaKey == uint32(key) {
					statement = of
				}
			}
			if statement.Used != u.Used || statement.Overage != u.Overage {
				t.Errorf("the statement has %v, usage %v", statement, u)
			}
		})
	}
}
