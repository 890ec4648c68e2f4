package billing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing"
)

const dayMillis = 24 * 60 * 60 * 1000

type daySum struct{ used, overage, spent int64 }

// daysOf sums the usage by day of an account over the present month, by quota key.
func (s *stack) daysOf(id uint64) map[plan.QuotaKey]daySum {
	s.t.Helper()
	u := s.usageOf(id)
	a := s.query(&event.Query{Account: id, Query: &event.Query_UsageDays{UsageDays: &event.UsageDaysQuery{
		FromDay: uint32(u.PeriodStartMs / dayMillis), ToDay: uint32(u.PeriodEndMs/dayMillis) - 1,
	}}})
	if a.Status != event.QueryStatus_QUERY_OK {
		s.t.Fatalf("days: %v", a.Status)
	}
	sums := map[plan.QuotaKey]daySum{}
	for _, d := range a.GetUsageDays().Days {
		for _, u := range d.Usage {
			sum := sums[plan.QuotaKey(u.QuotaKey)]
			sums[plan.QuotaKey(u.QuotaKey)] = daySum{sum.used + u.Used, sum.overage + u.Overage, sum.spent + u.SpentMicros}
		}
	}
	return sums
}

// daysSum holds the days of an account to its month.
func (s *stack) daysSum(id uint64) {
	s.t.Helper()
	sums := s.daysOf(id)
	for _, u := range s.usageOf(id).Usage {
		sum := sums[plan.QuotaKey(u.QuotaKey)]
		if sum.used != int64(u.Used) || sum.overage != int64(u.Overage) || sum.spent != int64(u.SpentMicros) {
			s.t.Fatalf("%v: the days sum to %d, %d and %d, the month has %v", plan.QuotaKey(u.QuotaKey), sum.used, sum.overage, sum.spent, u)
		}
	}
}

// TestDaysSumToTheMonthAcrossKills: with two instances on one partition, of which each is killed before its last writes, and begins
// again from a snapshot that is older than the checkpoint.
func TestDaysSumToTheMonthAcrossKills(t *testing.T) {
	s := newStack(t)
	configs := []billing.Config{{SnapshotMessages: 3, Instance: "a"}, {SnapshotMessages: 7, Instance: "b"}}
	running := []*running{s.start(configs[0], 0), s.start(configs[1], 0)}
	s.account(alice, plan.Pro)
	s.grant(alice, 10_000_000)
	s.serve(alice, plan.FilesUpload, 99)
	for n := range 4 {
		void := admission(alice, plan.FilesUpload)
		s.usage([]*event.Admission{void}, nil)
		s.serve(alice, plan.FilesUpload, 3) // at least one is paid, and free again once the other is voided
		if n%2 == 0 {
			s.daysSum(alice)
		}
		s.usage(nil, []*event.Settlement{{RequestId: void.RequestId, Result: event.Result_VOID, Account: alice, QuotaKey: uint32(plan.FilesUpload)}})
		s.serve(alice, plan.PastesGet, 2)
		s.kill(running[n%2])
		s.daysSum(alice)
		running[n%2] = s.start(configs[n%2], 0)
		s.daysSum(alice)
	}
	if sum := s.daysOf(alice)[plan.FilesUpload]; sum.used != 99+12 || sum.overage != 11 || sum.spent != 55_000 {
		t.Fatalf("%d used, %d beyond the limit, %d spent", sum.used, sum.overage, sum.spent)
	}
	if a := s.audit(); !a.Match {
		t.Fatalf("audit %v", a)
	}
}

// TestDaysAreNotAnsweredWithoutWhatIsAcknowledged: while the read model fails, the answer waits for it.
func TestDaysAreNotAnsweredWithoutWhatIsAcknowledged(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	s.account(alice, plan.Max)
	s.views.down.Store(true)
	s.serve(alice, plan.PastesGet, 5)
	today := uint32(time.Now().UnixMilli() / dayMillis)
	ask := func(from, to uint32) error {
		payload, err := event.Encode(&event.Query{Account: alice, Query: &event.Query_UsageDays{UsageDays: &event.UsageDaysQuery{FromDay: from, ToDay: to}}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = rpc.Call(ctx, s.nc, event.QuerySubject(0), payload)
		return err
	}
	if ask(today, today) == nil {
		t.Fatal("days were answered that lack what is acknowledged")
	}
	s.views.down.Store(false)
	s.daysSum(alice)
	var refused *rpc.Error
	for _, wrong := range [][2]uint32{{today, today - 1}, {today - 400, today}, {0, 1<<32 - 1}} {
		if err := ask(wrong[0], wrong[1]); !errors.As(err, &refused) || refused.Code != "malformed" {
			t.Fatalf("days %d to %d: %v", wrong[0], wrong[1], err)
		}
	}
	a := s.query(&event.Query{Account: bob, Query: &event.Query_UsageDays{UsageDays: &event.UsageDaysQuery{FromDay: today, ToDay: today}}})
	if a.Status != event.QueryStatus_QUERY_NOT_FOUND {
		t.Fatalf("of nobody: %v", a)
	}
}
