package account

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

func subscribe(id uint64, s *event.SetSubscription) *event.Command {
	s.Provider = "bank"
	return &event.Command{Account: id, Action: &event.Command_SetSubscription{SetSubscription: s}}
}

// sub is an active subscription that was created at a time, which is its id.
func sub(created int64, tier plan.Tier, asOf int64) *event.SetSubscription {
	return &event.SetSubscription{Id: fmt.Sprint("sub_", created), Tier: uint32(tier), Active: true, CreatedMs: created, AsOfMs: asOf}
}

func ended(s *event.SetSubscription) *event.SetSubscription {
	s.Active = false
	return s
}

func (h *history) wantTier(want plan.Tier) {
	h.t.Helper()
	if p := h.fold.PlanAt(event.AccountID(alice), h.now); plan.Tier(p.Tier) != want {
		h.t.Fatalf("on %v, want %v", p, want)
	}
}

func TestAnAccountIsOnThePlanOfItsNewestActiveSubscription(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	does := func(s *event.SetSubscription, tier plan.Tier) {
		t.Helper()
		h.wait(time.Minute).wantStatus(subscribe(alice, s), ok)
		h.wantTier(tier)
	}
	does(ended(sub(1, plan.Pro, 1)), plan.Free)
	does(sub(5, plan.Pro, 1), plan.Pro)
	does(sub(7, plan.Max, 1), plan.Max)
	does(sub(6, plan.Pro, 1), plan.Max)        // is older
	does(ended(sub(6, plan.Pro, 2)), plan.Max) // did not count
	does(sub(7, plan.Pro, 0), plan.Max)        // outdated
	does(sub(7, plan.Pro, 1), plan.Pro)        // the provider has changed its plan
	h.wantStatus(setNextTier(alice, plan.Max), ok)
	past := sub(7, plan.Pro, 2)
	past.PastDue, past.Cancels, past.PeriodEndMs, past.NextTier = true, true, 9, uint32(plan.Max)
	does(past, plan.Pro)
	p := h.fold.PlanAt(event.AccountID(alice), h.now)
	if len(p.Subscriptions) != 2 || p.Subscriptions[0].Id != "sub_5" || !p.Subscriptions[1].PastDue || !p.Subscriptions[1].Cancels || p.Subscriptions[1].PeriodEndMs != 9 || p.Subscriptions[1].NextTier != uint32(plan.Max) || plan.Tier(p.NextTier) != plan.Max {
		t.Errorf("%v", p)
	}
	does(ended(sub(7, plan.Pro, 3)), plan.Pro) // the other one, on the same plan
	if p := h.fold.PlanAt(event.AccountID(alice), h.now); p.NextTier != 0 {
		t.Errorf("another subscription keeps the next plan: %v", p)
	}
	does(ended(sub(5, plan.Pro, 3)), plan.Free)
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-10", h.now)
	if len(s.Periods) != 5 {
		t.Errorf("%d periods: %v", len(s.Periods), s.Periods)
	}
}

func TestAPlanSetByHandStaysUntilTheSubscriptionChanges(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.wantStatus(subscribe(alice, sub(1, plan.Pro, 1)), ok)
	h.wantStatus(setTier(alice, plan.Max), ok)
	h.wantStatus(subscribe(alice, sub(1, plan.Pro, 2)), ok) // nothing new
	h.wantTier(plan.Max)
	h.wantStatus(subscribe(alice, ended(sub(1, plan.Pro, 3))), ok) // it did not give this plan
	h.wantTier(plan.Max)
	h.wantStatus(subscribe(alice, sub(2, plan.Pro, 3)), ok)
	h.wantTier(plan.Pro)
}

func TestASubscriptionThatCannotBeFollowedChangesNothing(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	for _, s := range []*event.SetSubscription{sub(1, plan.Free, 1), sub(1, plan.Admin, 1), sub(1, 9, 1), sub(1, plan.MaxTiers, 1), {Tier: uint32(plan.Pro), Active: true}} {
		h.wantStatus(subscribe(alice, s), badCommand)
	}
	h.wantStatus(&event.Command{Account: alice, Action: &event.Command_SetSubscription{}}, badCommand)
	for next, want := range map[uint32]event.CommandStatus{uint32(plan.MaxTiers) - 1: ok, uint32(plan.MaxTiers): badCommand} {
		s := ended(sub(99, plan.Pro, 1))
		s.NextTier = next
		h.wantStatus(subscribe(alice, s), want)
	}
	for i := range maxPeriods {
		h.wait(time.Second).wantStatus(setTier(alice, []plan.Tier{plan.Max, plan.Free}[i%2]), ok)
	}
	h.wantStatus(subscribe(alice, sub(1, plan.Pro, 1)), badCommand)
	if p := h.fold.PlanAt(event.AccountID(alice), h.now); len(p.Subscriptions) != 0 {
		t.Errorf("kept: %v", p)
	}
	h.wait(31*24*time.Hour).wantStatus(subscribe(alice, sub(1, plan.Pro, 1)), ok)
	h.wantTier(plan.Pro)
}

// TestASubscriptionOfAPlanThatIsGone: of a price book without it, the account keeps what it has.
func TestASubscriptionOfAPlanThatIsGone(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	book := plan.Published(10)
	book.Plans[7] = book.Plans[plan.Pro]
	book.Plans[7].Name = "team"
	h.apply(applied(t, book, h.now))
	h.wantStatus(subscribe(alice, sub(1, 7, 1)), ok)
	h.wantStatus(subscribe(alice, sub(2, plan.Pro, 1)), ok)
	if p := h.fold.PlanAt(event.AccountID(alice), h.now); len(p.Subscriptions) != 2 || p.Plan != "" {
		t.Errorf("%v", p)
	}
	h.wait(time.Minute).apply(applied(t, plan.Published(10), h.now))
	h.wantStatus(subscribe(alice, ended(sub(2, plan.Pro, 2))), badCommand)
	h.wantTier(plan.Pro)
	h.wantStatus(subscribe(alice, ended(sub(1, 7, 2))), ok) // it is not in the price book any more
	h.wantStatus(subscribe(alice, ended(sub(2, plan.Pro, 2))), ok)
	h.wantTier(plan.Free)
}

// TestEndedSubscriptionsAreBounded: strangers who begin and never pay do not grow the state.
func TestEndedSubscriptionsAreBounded(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.wantStatus(subscribe(alice, sub(1, plan.Pro, 1)), ok)
	for i := range int64(maxEnded + 5) {
		h.wantStatus(subscribe(alice, ended(sub(10+i, plan.Max, 5))), ok)
	}
	h.wantTier(plan.Pro)
	if kept := h.fold.principals.accounts[alice].subscriptions; len(kept) != maxEnded+1 || kept[1].CreatedMs != 15 {
		t.Errorf("%d kept: %v", len(kept), kept)
	}
}

func TestSubscriptionsNeedRules4(t *testing.T) {
	h := newHistory(t, nil)
	h.rules = Rules3
	h.prices(plan.Published(10))
	h.account(alice, plan.Free)
	scoped := createKey(alice, 11, &event.KeyRules{Name: new("pays"), Scopes: scopesOf(plan.ScopeCheckout)})
	commands := []*event.Command{subscribe(alice, sub(1, plan.Pro, 1)), setTopUp(alice, 1, 2_000_000, 2_000_000), topUpFailed(alice, 1, ""), feeOf(alice, "in_1"), scoped}
	for _, c := range commands {
		h.wantStatus(c, badCommand)
	}
	h.rules = Rules4
	h.prices(plan.Published(10))
	for _, c := range commands {
		h.wantStatus(c, ok)
	}
	h.sound()
}

// TestOrderAndRepetitionOfSubscriptionsDoNotMatter: any order of the same reads, some of them twice, comes to the same plan and state.
func TestOrderAndRepetitionOfSubscriptionsDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var reads []*event.SetSubscription
		for id := range int64(rapid.IntRange(1, 4).Draw(t, "subscriptions")) {
			for asOf := range int64(rapid.IntRange(1, 4).Draw(t, "reads")) {
				s := sub(10+id/2, rapid.SampledFrom([]plan.Tier{plan.Pro, plan.Max}).Draw(t, "tier"), asOf) // some of one time
				s.Id, s.Active, s.PastDue = fmt.Sprint("sub_", id), rapid.Bool().Draw(t, "active"), rapid.Bool().Draw(t, "past due")
				reads = append(reads, s)
			}
		}
		var want *event.PlanAnswer
		for range 2 {
			order := rapid.Permutation(append(reads, rapid.SliceOfN(rapid.SampledFrom(reads), 0, 3).Draw(t, "again")...)).Draw(t, "order")
			h := newHistory(t, plan.Published(10))
			h.account(alice, plan.Free)
			for _, s := range order {
				h.wantStatus(subscribe(alice, s), ok)
			}
			h.sound()
			got := h.fold.PlanAt(event.AccountID(alice), h.now)
			if want == nil {
				want = got
			}
			if !proto.Equal(want, got) {
				t.Fatalf("%v: %v, before %v", order, got, want)
			}
		}
	})
}

// TestAClockThatIsAheadOutdatesNothing: what an edge with such a clock has read must not freeze the state, nor after the journal's own
// clock has come back.
func TestAClockThatIsAheadOutdatesNothing(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Free)
	h.wantStatus(paymentOf(alice, "p", credit), ok)
	ahead := h.now + 6*time.Hour.Milliseconds()
	h.wantStatus(subscribe(alice, sub(5, plan.Pro, ahead)), ok)
	h.wantStatus(reversalOf(alice, "p", credit, ahead), ok)
	h.wait(time.Minute)
	h.wantStatus(subscribe(alice, ended(sub(5, plan.Pro, h.now))), ok)
	h.wantTier(plan.Free)
	h.wantStatus(reversalOf(alice, "p", 0, h.now), ok)
	if h.balance(alice) != credit {
		t.Errorf("balance %d", h.balance(alice))
	}
}
