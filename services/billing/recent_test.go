package billing_test

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
)

// recent reads all pages of an account's recent requests.
func (s *stack) recent(id uint64, q *event.RecentQuery) (all []*event.RecentRequest) {
	s.t.Helper()
	for {
		a := s.query(&event.Query{Account: id, Query: &event.Query_Recent{Recent: q}})
		if a.Status != event.QueryStatus_QUERY_OK {
			s.t.Fatalf("recent requests: %v", a)
		}
		all = append(all, a.GetRecent().Requests...)
		if q.Cursor = a.GetRecent().NextCursor; len(q.Cursor) == 0 {
			return all
		}
	}
}

// TestRecentRequestsOutliveAKill: the list is complete, in the last states, and without duplicates.
func TestRecentRequestsOutliveAKill(t *testing.T) {
	s := newStack(t)
	cfg := billing.Config{SnapshotMessages: 3}
	r := s.start(cfg, 0)
	s.account(alice, plan.Pro)
	s.grant(alice, 1_000_000)
	open := admission(alice, plan.FilesUpload)
	s.usage([]*event.Admission{open}, nil)
	wanted := [][]byte{open.RequestId}
	for range 4 {
		for range 5 {
			for _, a := range s.serve(alice, plan.FilesUpload, 6) {
				wanted = append(wanted, a.RequestId)
			}
		}
		s.kill(r)
		r = s.start(cfg, 0)
		got := s.recent(alice, &event.RecentQuery{Limit: 7})
		if len(got) != len(wanted) {
			t.Fatalf("%d requests of %d", len(got), len(wanted))
		}
		for i, g := range got {
			at := len(wanted) - 1 - i
			status, cost := "served", uint64(0)
			if at == 0 {
				status = "open"
			}
			if at >= 100 {
				cost = 5_000
			}
			if string(g.RequestId) != string(wanted[at]) || g.Status != status || g.CostMicros != cost {
				t.Fatalf("request %d is %v", at, g)
			}
		}
	}
	s.usage(nil, []*event.Settlement{{RequestId: open.RequestId, Result: event.Result_VOID, Account: alice, QuotaKey: open.QuotaKey}})
	all := s.recent(alice, &event.RecentQuery{})
	if last := all[len(all)-1]; last.Status != "void" || last.Charge != event.ChargeSource_CHARGE_NONE {
		t.Errorf("%v", last)
	}
	// The void has refunded the newest paid request.
	if newest := all[0]; newest.CostMicros != 0 || newest.Charge != event.ChargeSource_CHARGE_QUOTA || all[1].CostMicros != 5_000 {
		t.Errorf("%v, and before it %v", newest, all[1])
	}
}

// TestReplicasShowTheSameRecentRequests: one that starts later has the earlier ones too.
func TestReplicasShowTheSameRecentRequests(t *testing.T) {
	s := newStack(t)
	first := s.start(billing.Config{SnapshotMessages: 4}, 0)
	s.account(alice, plan.Pro)
	s.serve(alice, plan.LiteGet, 30)
	eventually.True(t, "a snapshot is there", func() bool { return len(s.snapshots()) > 0 })
	s.serve(alice, plan.LiteGet, 3)
	before := s.recent(alice, &event.RecentQuery{})
	s.start(billing.Config{SnapshotMessages: 4}, 0)
	first.stop()
	after := s.recent(alice, &event.RecentQuery{})
	if len(before) != 33 || len(after) != len(before) {
		t.Fatalf("%d requests, and %d on the other replica", len(before), len(after))
	}
	for i := range before {
		if before[i].String() != after[i].String() {
			t.Errorf("request %d: %v and %v", i, before[i], after[i])
		}
	}
}

func TestRecentRequestsOfNobody(t *testing.T) {
	s := newStack(t)
	s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	if got := s.recent(alice, &event.RecentQuery{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for want, q := range map[event.QueryStatus]*event.Query{
		event.QueryStatus_QUERY_NOT_FOUND:      {Account: bob, Query: &event.Query_Recent{Recent: &event.RecentQuery{}}},
		event.QueryStatus_QUERY_INVALID_CURSOR: {Account: alice, Query: &event.Query_Recent{Recent: &event.RecentQuery{Cursor: []byte("x")}}},
	} {
		if a := s.query(q); a.Status != want {
			t.Errorf("%v, want %v", a, want)
		}
	}
}
