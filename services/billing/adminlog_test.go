package billing_test

import (
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing"
)

// TestTheAdminLogIsMadeAgainFromTheJournal: with an empty read model it comes to the same entries, though there is a snapshot.
func TestTheAdminLogIsMadeAgainFromTheJournal(t *testing.T) {
	s := newStack(t)
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Free)
	for n, c := range []*event.Command{
		{Account: alice, Action: &event.Command_SetTier{SetTier: &event.SetTier{Tier: uint32(plan.Pro)}}},
		{Account: alice, Action: &event.Command_Suspend{Suspend: &event.Suspend{Reason: "spam"}}},
		{Action: &event.Command_Note{Note: &event.Note{Action: "audit.start"}}},
	} {
		id := event.NewRequestID()
		c.RequestId, c.Admin = id[:], &event.AdminAction{Token: "ann"}
		if o := s.command(c); o.Status != event.CommandStatus_COMMAND_OK {
			t.Fatalf("command %d: %v", n, o)
		}
	}
	log := func() []*event.AdminEntry {
		return s.queryAt(0, &event.Query{Query: &event.Query_AdminLog{AdminLog: &event.AdminLogQuery{}}}).GetAdminLog().GetEntries()
	}
	before := log()
	if len(before) != 3 || before[0].Action != "audit.start" || before[2].Action != "tier.set" {
		t.Fatalf("%v", before)
	}
	r.stop()
	empty, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "billing.db"), Collections: billing.Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = empty.Close() })
	s.views.Store = empty
	s.start(billing.Config{}, 0)
	again := log()
	if len(again) != len(before) {
		t.Fatalf("%v, were %v", again, before)
	}
	for i := range again {
		if !proto.Equal(again[i], before[i]) {
			t.Errorf("entry %d is %v, was %v", i, again[i], before[i])
		}
	}
	if u := s.usageOf(alice); u.SuspendedMs == 0 || u.SuspensionReason != "spam" {
		t.Errorf("%v", u)
	}
}
