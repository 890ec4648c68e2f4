package billing_test

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
)

// TestWhatIsPaidIsAnsweredAfterAKill: the plan, the payments and the top-ups that are due, from a snapshot and the messages after it.
func TestWhatIsPaidIsAnsweredAfterAKill(t *testing.T) {
	s := newStack(t)
	cfg := billing.Config{SnapshotMessages: 3}
	r := s.start(cfg, 0)
	s.account(alice, plan.Free)
	for n, c := range []*event.Command{
		{Action: &event.Command_SetSubscription{SetSubscription: &event.SetSubscription{Provider: "bank", Id: "sub_1", Tier: uint32(plan.Pro), Active: true, AsOfMs: 1}}},
		{Action: &event.Command_Payment{Payment: &event.Payment{Provider: "bank", Id: "in_1", Plan: "pro", AmountCents: 900}}},
		{Action: &event.Command_Payment{Payment: &event.Payment{Provider: "bank", Id: "in_2", CreditsMicros: 4_000_000, AmountCents: 400}}},
		{Action: &event.Command_SetTopUp{SetTopUp: &event.SetTopUp{BelowMicros: 5_000_000, CreditsMicros: 10_000_000, MonthMicros: 30_000_000}}},
	} {
		if c.Account = alice; s.command(c).Status != event.CommandStatus_COMMAND_OK {
			t.Fatalf("command %d was refused", n)
		}
	}
	for range 2 {
		p := s.query(&event.Query{Account: alice, Query: &event.Query_Plan{Plan: &event.PlanQuery{}}}).GetPlan()
		if plan.Tier(p.GetTier()) != plan.Pro || p.BalanceMicros != 4_000_000 || p.Payments != 2 || len(p.Subscriptions) != 1 || p.TopUp.GetDueMicros() != 10_000_000 {
			t.Errorf("the plan is %v", p)
		}
		page := s.query(&event.Query{Account: alice, Query: &event.Query_Payments{Payments: &event.PaymentsQuery{Limit: 1}}}).GetPayments()
		if len(page.GetPayments()) != 1 || page.Payments[0].Id != "in_2" || !page.More {
			t.Errorf("the payments are %v", page)
		}
		due := s.queryAt(s.partition(alice), &event.Query{Query: &event.Query_TopUps{TopUps: &event.TopUpsQuery{}}}).GetTopUps().GetTopUps()
		if len(due) != 1 || due[0].Account != alice || due[0].Id != 1 || due[0].CreditsMicros != 10_000_000 {
			t.Errorf("due are %v", due)
		}
		s.kill(r)
		r = s.start(cfg, 0)
	}
	for _, q := range []*event.Query{
		{Account: bob, Query: &event.Query_Plan{Plan: &event.PlanQuery{}}}, {Account: bob, Query: &event.Query_Payments{Payments: &event.PaymentsQuery{}}},
	} {
		if a := s.query(q); a.Status != event.QueryStatus_QUERY_NOT_FOUND {
			t.Errorf("of nobody: %v", a)
		}
	}
}
