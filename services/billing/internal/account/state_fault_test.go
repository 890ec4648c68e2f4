package account

import (
	"errors"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestACounterThatIsTooSmallStopsTheFold: it does not wrap around, nothing of its message is answered, and nothing after that
// is folded or hashed.
func TestACounterThatIsTooSmallStopsTheFold(t *testing.T) {
	const key = plan.PastesGet
	void := func(h *history, a *event.Admission) (Kind, event.Message) {
		return Usage, &event.UsageBatch{Source: "edge", Number: 99, StampMs: h.now, Settlements: []*event.Settlement{settlementOf(a, event.Result_VOID)}}
	}
	later := func(h *history, _ *event.Admission) (Kind, event.Message) {
		h.now += 2 * HoldMillis
		return Usage, &event.UsageBatch{Source: "tick", StampMs: h.now}
	}
	muchLater := func(h *history, _ *event.Admission) (Kind, event.Message) {
		h.now += HoldMillis + MemoryMillis
		return Usage, &event.UsageBatch{Source: "tick", StampMs: h.now}
	}
	less := func(h *history, _ *event.Admission) (Kind, event.Message) {
		return Commands, &event.CommandBatch{Source: "admin", Number: 99, StampMs: h.now, Commands: []*event.Command{grantOf(alice, -5, 0)}}
	}
	more := func(h *history, _ *event.Admission) (Kind, event.Message) {
		return Usage, &event.UsageBatch{Source: "edge", Number: 99, StampMs: h.now, Admissions: []*event.Admission{h.admission(alice, key)}}
	}
	hold := func(f *Fold) *hold { return f.holds.open.head }
	for name, c := range map[string]struct {
		corrupt func(f *Fold, a *account)
		next    func(*history, *event.Admission) (Kind, event.Message)
	}{
		"used":                      {func(_ *Fold, a *account) { a.current.used[key] = 0 }, void},
		"overage":                   {func(_ *Fold, a *account) { a.current.charging().overage[key] = 0 }, void},
		"spent":                     {func(_ *Fold, a *account) { a.current.charging().spent[key] = 1 }, void},
		"used in the last month":    {func(_ *Fold, a *account) { a.month++ }, void},
		"open holds of a key":       {func(_ *Fold, a *account) { a.openBy[key] = 0 }, void},
		"open paid holds":           {func(_ *Fold, a *account) { a.openPaid = 0 }, void},
		"open holds":                {func(_ *Fold, a *account) { a.open.count = 0 }, void},
		"open holds of all":         {func(f *Fold, _ *account) { f.holds.open.count = 0 }, later},
		"remembered holds":          {func(f *Fold, _ *account) { f.timeOut(hold(f)); f.holds.closed.count = 0 }, muchLater},
		"holds of a grant":          {func(f *Fold, _ *account) { hold(f).use[0].grant.refs = 0 }, void},
		"settled, by a charge":      {func(_ *Fold, a *account) { a.settled = 1 }, later},
		"settled, by an adjustment": {func(_ *Fold, a *account) { a.settled = 1 }, less},
		"available, by an expiry":   {func(f *Fold, a *account) { a.available = 1; f.expire(f.credits.expiries[0]) }, void},
		"grants, by an adjustment":  {func(_ *Fold, a *account) { a.grants[0].left = 1 }, less},
		"grants, by a charge":       {func(_ *Fold, a *account) { a.grants[0].left = 1 }, more},
	} {
		t.Run(name, func(t *testing.T) {
			book := plan.Published(10)
			book.Terms[plan.Pro][key] = plan.Term{Limit: 0, Price: 10, Overage: true}
			h := newHistory(t, book)
			h.account(alice, plan.Pro)
			h.grant(alice, 100, h.now+1_000_000)
			a := h.admission(alice, key)
			h.want(a, event.Decision_ADMITTED)
			c.corrupt(h.fold, h.fold.principals.accounts[alice])
			kind, m := c.next(h, a)
			data, err := event.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			message := Message{Sequence: h.fold.Sequence() + 1, TimeNanos: h.now * nanosPerMilli, Kind: kind, Data: data}
			effects, err := h.fold.Apply(message)
			if !errors.Is(err, ErrState) || errors.Is(err, ErrUndecodable) {
				t.Fatalf("folded with %v", err)
			}
			if len(effects.Answers)+len(effects.Ledger)+len(effects.Closed)+len(effects.Changed) > 0 {
				t.Errorf("effects of a state that is wrong: %v", effects)
			}
			is := h.fold.principals.accounts[alice]
			if is.available < 0 || is.settled < 0 || is.current.used[key] > 2 || is.current.charging().overage[key] > 2 || is.current.charging().spent[key] > 100 ||
				is.openBy[key] > 2 || is.openPaid > 2 || is.open.count < 0 || h.fold.holds.open.count < 0 || h.fold.holds.closed.count < 0 {
				t.Errorf("wrapped round: %+v", is)
			}
			message.Sequence++
			if _, err := h.fold.Apply(message); !errors.Is(err, ErrState) {
				t.Errorf("the next message is folded with %v", err)
			}
			if _, err := h.fold.StateHash(); !errors.Is(err, ErrState) {
				t.Errorf("hashed with %v", err)
			}
			if _, err := h.fold.Image(); !errors.Is(err, ErrState) {
				t.Errorf("a snapshot is taken with %v", err)
			}
		})
	}
}
