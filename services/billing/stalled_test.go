package billing_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/plan"
	"quire.dev/pkg/rpc"
	"quire.dev/services/billing"
)

// TestAnIdleInstanceNoticesThatItsJournalTakesNoWrites, tells operators and edges, and that it takes them again. What it wrote to
// find out changes no account.
func TestAnIdleInstanceNoticesThatItsJournalTakesNoWrites(t *testing.T) {
	s := newStack(t)
	cfg := billing.Config{PartitionCount: 2}
	running := s.start(cfg, 0)
	const user = 7
	s.account(user, plan.Pro)
	s.serve(user, plan.FilesUpload, 3)
	stalled := func() []int {
		data, err := rpc.Call(t.Context(), s.nc, event.InstancesSubject, nil)
		var is event.Instance
		if err == nil {
			err = json.Unmarshal(data, &is)
		}
		if err != nil {
			t.Fatal(err)
		}
		return is.Stalled
	}
	if err := running.Unready(); err != nil || len(stalled()) > 0 {
		t.Fatalf("unready: %v; stalled: %v", err, stalled())
	}
	empty := journaltest.Fill(t, s.nc, event.Billing.Stream(1))
	eventually.NoError(t, "the instance says so", func() error {
		err := running.Unready()
		if err == nil || !strings.HasPrefix(err.Error(), "partition 1: its journal takes no writes: ") || !slices.Equal(stalled(), []int{1}) {
			return fmt.Errorf("unready: %w; stalled: %v", err, stalled())
		}
		return nil
	})
	empty()
	eventually.NoError(t, "the instance is ready again", running.Unready)
	if len(stalled()) > 0 {
		t.Errorf("stalled: %v", stalled())
	}
	s.serve(user, plan.FilesUpload, 2)
	if used := s.usageOf(user).Usage[plan.FilesUpload-1].Used; used != 5 {
		t.Errorf("%d requests are counted, want 5", used)
	}
	for p := range cfg.PartitionCount {
		if audit := s.auditAt(p); !audit.Match {
			t.Errorf("audit of partition %d: %v", p, audit)
		}
	}
	running.stop()
}
