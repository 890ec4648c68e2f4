package account

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// The model's subscriptions are looked at as a whole after each event, and its top-ups decided for every account after each message.

// TestPlansAndTopUpsAgreeWithTheModel: one account whose plan and credits are paid at a provider, beside its requests.
func TestPlansAndTopUpsAgreeWithTheModel(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		m.keys, m.accounts = []plan.QuotaKey{plan.FilesUpload}, []uint64{alice}
		m.commandOf(t, create(alice, plan.Pro))
		m.commandOf(t, grantOf(alice, 10_000, 0))
		for range rapid.IntRange(20, 60).Draw(t, "steps") {
			switch step := rapid.IntRange(0, 19).Draw(t, "step"); {
			case step < 4:
				m.admissions(t)
			case step < 15:
				m.correct(t, rapid.SampledFrom([]int{0, 1, 3, 3, 4, 4, 4, 4, 4}).Draw(t, "correction"))
			case step < 17:
				m.wait(time.Hour).tick() // after a failure, the next top-up
				m.model.advance(m.now)
				m.last = nil
			case step < 19:
				m.pass(t)
			default:
				m.step(t)
			}
			m.compare(t)
		}
		m.finish(t)
		for kind, n := range m.corrections {
			seen[kind] += n
		}
	})
	for _, kind := range []string{"subscribed", "unsubscribed", "top-up due", "top-up paid", "top-up failed", "top-ups off"} {
		if seen[kind] == 0 {
			t.Errorf("no history had one %s: %v", kind, seen)
		}
	}
}

// setTier changes the tier from now on.
func (m *model) setTier(a *modelAccount, tier plan.Tier) {
	if a.tier != tier {
		a.changes++
		a.changed = m.now
		a.tier = tier
	}
	a.nextTier = 0
}

func (m *machine) subscription(t *rapid.T, id uint64) *event.Command {
	n := rapid.Int64Range(0, 3).Draw(t, "subscription")
	s := sub(n, rapid.SampledFrom([]plan.Tier{plan.Pro, plan.Max}).Draw(t, "tier"), rapid.Int64Range(1, 20).Draw(t, "as of"))
	s.Active, s.CreatedMs, s.PastDue = rapid.Bool().Draw(t, "active"), 10+n/2, rapid.Bool().Draw(t, "past due")
	s.NextTier = uint32(rapid.SampledFrom([]plan.Tier{0, plan.Pro}).Draw(t, "next tier"))
	return subscribe(id, s)
}

func (a *modelAccount) activeSubscriptions() (list []*event.SetSubscription) {
	for _, s := range a.subscriptions {
		if s.Active {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, event.CompareSubscriptions)
	return list
}

// paying is the subscription that counts, as text; empty without one.
func (a *modelAccount) paying() (tier plan.Tier, name string) {
	if list := a.activeSubscriptions(); len(list) > 0 {
		last := list[len(list)-1]
		return plan.Tier(last.Tier), fmt.Sprint(last.Id, " ", last.Tier)
	}
	return 0, ""
}

func (m *machine) subscribed(a *modelAccount, s *event.SetSubscription) {
	if a.subscriptions == nil {
		a.subscriptions = map[string]*event.SetSubscription{}
	}
	if known := a.subscriptions[s.Id]; known != nil && known.AsOfMs > s.AsOfMs {
		return
	}
	was, before := a.paying()
	a.subscriptions[s.Id] = s
	switch tier, now := a.paying(); {
	case now == before:
	case now != "":
		m.model.setTier(a, tier)
		m.corrections["subscribed"]++
	case a.tier == was:
		m.model.setTier(a, plan.Free)
		m.corrections["unsubscribed"]++
	}
}

type modelTopUp struct {
	below, credits, limit int64
	last                  uint64
	due                   int64 // credits that are to be charged; 0: none
	since                 int64
	spent                 map[uint32]int64 // by month
	month                 uint32           // of the last
	failures              int
	waits                 int64 // no top-up before this time
	reason                string
	off                   bool
}

// topUpCommand makes a command about top-ups. The model executes it at once, since the message with it decides about the next one.
func (m *machine) topUpCommand(t *rapid.T, id uint64, a *modelAccount) *event.Command {
	if a.topUp == nil {
		a.topUp = &modelTopUp{spent: map[uint32]int64{}}
	}
	of := a.topUp
	named := max(1, of.last+uint64(rapid.SampledFrom([]int{0, 0, 0, -1, 1}).Draw(t, "which")))
	kind := rapid.SampledFrom([]int{0, 1, 2, 2, 2, 2}).Draw(t, "top-up")
	switch {
	case kind == 0 || of.limit == 0:
		of.below, of.credits = rapid.Int64Range(0, 90_000).Draw(t, "below"), credit
		of.limit = rapid.Int64Range(1, 4).Draw(t, "month") * credit
		if of.failures > 0 {
			of.waits = 0
		}
		if rapid.IntRange(0, 4).Draw(t, "none") == 4 {
			if of.due > 0 {
				of.waits = m.model.now + 3_600_000
			}
			of.below, of.credits, of.limit, of.due, of.since = 0, 0, 0, 0, 0
		}
		of.failures, of.reason, of.off = 0, "", false
		return setTopUp(id, uint64(of.below), uint64(of.credits), uint64(of.limit))
	case kind == 1:
		c := topUpPaid(id, named, 5_000)
		c.GetPayment().Id = fmt.Sprint("top-up ", rapid.IntRange(0, 50).Draw(t, "payment"))
		if a.bought[c.GetPayment().Id] == nil && of.due > 0 && named == of.last {
			of.due, of.since, of.failures, of.reason = 0, 0, 0, ""
			m.corrections["top-up paid"]++
		}
		return c
	}
	if of.due > 0 && named == of.last {
		of.spent[of.month] -= of.due
		of.due, of.since, of.waits, of.reason = 0, 0, m.model.now+3_600_000, "declined"
		of.failures++
		m.corrections["top-up failed"]++
		if of.failures == 2 {
			of.off = true
			m.model.notifyHolder(id, a, event.AlertType_ALERT_TOP_UP_OFF)
			m.corrections["top-ups off"]++
		}
	}
	return topUpFailed(id, named, "declined")
}

// decideTopUps decides after a message, by the balances of the fold.
func (m *machine) decideTopUps(t *rapid.T) {
	for id, a := range m.model.accounts {
		u, of := m.fold.UsageAt(event.AccountID(id), 0), a.topUp
		if of == nil || of.credits == 0 || of.due > 0 || of.off || u.SuspendedMs+u.DeletesMs+u.ErasedMs != 0 || u.BalanceMicros >= of.below || m.fold.time < of.waits {
			continue
		}
		if month := monthOf(u.PeriodStartMs).number; of.spent[month]+of.credits <= of.limit {
			of.last++
			of.due, of.since, of.month = of.credits, m.fold.time, month
			of.spent[month] += of.credits
			m.corrections["top-up due"]++
		}
	}
}

// comparePlan compares the plan, what pays for it, and the top-ups.
func (m *machine) comparePlan(t *rapid.T, id uint64, a *modelAccount) {
	p := m.fold.PlanAt(event.AccountID(id), m.model.now)
	active := a.activeSubscriptions()
	if plan.Tier(p.Tier) != a.tier || int(p.Payments) != len(a.bought) || !slices.EqualFunc(p.Subscriptions, active, func(a, b *event.SetSubscription) bool { return proto.Equal(a, b) }) {
		t.Fatalf("%x: %v, model %v with %v", id, p, a.tier, active)
	}
	of, got := a.topUp, p.TopUp
	if of == nil || got == nil {
		if got != nil || of != nil && of.limit > 0 {
			t.Fatalf("%x: %v, model %v", id, got, of)
		}
		return
	}
	spent := of.spent[monthOf(m.model.now).number]
	if got.Last != of.last || int64(got.DueMicros) != of.due || got.DueMs != of.since || int64(got.SpentMicros) != spent || int(got.Failures) != of.failures || got.Off != of.off || got.Reason != of.reason || spent > 4*credit {
		t.Fatalf("%x: %v, model %+v", id, got, of)
	}
	due := slices.ContainsFunc(m.fold.TopUps(&event.TopUpsQuery{}).TopUps, func(d *event.TopUp) bool { return d.Account == id && d.Id == of.last })
	if due != (of.due > 0 && !a.suspended && a.deletes == 0) {
		t.Fatalf("%x: listed %v, model %+v", id, due, of)
	}
}
