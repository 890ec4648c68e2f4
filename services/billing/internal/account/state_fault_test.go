package account

import (
	"bytes"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestAnAccountWithAnImpossibleCounterIsQuarantined: no counter wraps around, the account is refused, everyone else is served,
// and every fold decides the same. A resumed account is served again, and its ledger sums to its balance.
func TestAnAccountWithAnImpossibleCounterIsQuarantined(t *testing.T) {
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
	expired := func(h *history, _ *event.Admission) (Kind, event.Message) {
		h.now += 1_000_000
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
		"holds of a grant":          {func(f *Fold, _ *account) { hold(f).use[0].grant.refs = 0 }, void},
		"settled, by a charge":      {func(_ *Fold, a *account) { a.settled = 1 }, later},
		"settled, by an adjustment": {func(_ *Fold, a *account) { a.settled = 1 }, less},
		"available, by an expiry":   {func(_ *Fold, a *account) { a.available = 1 }, expired},
		"grants, by an adjustment":  {func(_ *Fold, a *account) { a.grants[0].left = 1 }, less},
		"grants, by a charge":       {func(_ *Fold, a *account) { a.grants[0].left = 1 }, more},
	} {
		t.Run(name, func(t *testing.T) {
			h, effects := impossible(t, c.corrupt, c.next)
			twin, _ := impossible(t, c.corrupt, c.next)
			if len(effects.Quarantined) == 0 || effects.Quarantined[0].Account != event.AccountID(alice) || effects.Quarantined[0].Reason == "" {
				t.Fatalf("quarantined %v", effects.Quarantined)
			}
			is := h.fold.principals.accounts[alice]
			if is.available < 0 || is.available != is.settled || is.current.used[key] > 2 || is.current.charging().overage[key] > 2 || is.current.charging().spent[key] > 100 ||
				is.openBy[key] != 0 || is.openPaid != 0 || is.open.count != 0 || h.fold.holds.open.count < 0 {
				t.Errorf("not isolated: %+v", is)
			}
			for _, h := range []*history{h, twin} {
				h.want(h.admission(alice, key), event.Decision_ACCOUNT_QUARANTINED)
				h.want(h.admission(bob, key), event.Decision_ADMITTED)
				h.fold = restored(t, h.fold)
				h.want(h.admission(alice, key), event.Decision_ACCOUNT_QUARANTINED)
				if u := h.fold.UsageAt(event.AccountID(alice), h.now); u.QuarantinedMs == 0 || u.QuarantineReason == "" || len(h.fold.QuarantinedAccounts()) != 1 || h.fold.Quarantined() != 1 {
					t.Fatalf("usage %v", u)
				}
				if s := h.fold.Key(event.AccountID(alice), &event.UsageQuery{KeyVersion: 1, KeyFingerprint: 1}, h.now); s != event.QueryStatus_QUERY_OK {
					t.Errorf("reads of the usage are answered with %v", s)
				}
				h.command(resume(alice))
				h.grant(alice, 1_000, 0)
				again := h.admission(alice, key)
				h.want(again, event.Decision_ADMITTED)
				h.served(again)
				if balance := h.fold.principals.accounts[alice]; balance.available != balance.settled || h.fold.Quarantined() != 0 {
					t.Errorf("resumed: %d available, the ledger has %d", balance.available, balance.settled)
				}
			}
			if one, two := stateHash(t, h.fold), stateHash(t, twin.fold); !bytes.Equal(one[:], two[:]) {
				t.Errorf("folds come to %x and %x", one, two)
			}
		})
	}
	for name, c := range map[string]struct {
		corrupt func(f *Fold, a *account)
		next    func(*history, *event.Admission) (Kind, event.Message)
	}{
		"nothing":           {func(*Fold, *account) {}, void},
		"open holds of all": {func(f *Fold, _ *account) { f.holds.open.count = 0 }, later},
		"remembered holds":  {func(f *Fold, _ *account) { f.timeOut(hold(f)); f.holds.closed.count = 0 }, muchLater},
	} {
		t.Run("nobody for "+name, func(t *testing.T) {
			h, effects := impossible(t, c.corrupt, c.next)
			if len(effects.Quarantined) != 0 || h.fold.holds.open.count < 0 || h.fold.holds.closed.count < 0 {
				t.Errorf("quarantined %v, %d open", effects.Quarantined, h.fold.holds.open.count)
			}
			h.want(h.admission(alice, key), event.Decision_ADMITTED)
		})
	}
}

// impossible corrupts the state of an account with a paid hold, and folds a message.
func impossible(t *testing.T, corrupt func(*Fold, *account), next func(*history, *event.Admission) (Kind, event.Message)) (*history, Effects) {
	t.Helper()
	book := plan.Published(10)
	book.Plans[plan.Pro].Terms[plan.PastesGet] = plan.Term{Limit: 0, Price: 10, Overage: true}
	h := newHistory(t, book)
	h.account(alice, plan.Pro)
	h.account(bob, plan.Max)
	h.grant(alice, 100, h.now+1_000_000)
	a := h.admission(alice, plan.PastesGet)
	h.want(a, event.Decision_ADMITTED)
	h.chains = nil // its entries don't sum to wrong counters
	corrupt(h.fold, h.fold.principals.accounts[alice])
	kind, m := next(h, a)
	data, err := event.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	message := Message{Sequence: h.fold.Sequence() + 1, TimeNanos: h.now * nanosPerMilli, Kind: kind, Data: data}
	effects, err := h.fold.Apply(message)
	if err != nil {
		t.Fatal(err)
	}
	effects.Quarantined = append([]Quarantined(nil), effects.Quarantined...)
	h.messages = append(h.messages, message)
	h.number["edge"], h.number["admin"] = 99, 99
	return h, effects
}
