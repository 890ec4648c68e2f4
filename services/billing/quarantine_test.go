package billing_test

import (
	"log/slog"
	"strings"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/pkg/plan"
	"quire.dev/services/billing"
	"quire.dev/services/billing/internal/account"
	"quire.dev/services/billing/internal/snapshots"
)

// TestAnImpossibleCounterStopsOneAccount and nobody else, also across a kill and a stop, until an admin resumes it.
func TestAnImpossibleCounterStopsOneAccount(t *testing.T) {
	s := newStack(t)
	s.log = &lines{}
	r := s.start(billing.Config{}, 0)
	s.account(alice, plan.Pro)
	s.account(bob, plan.Pro)
	open := admission(alice, plan.LiteGet)
	if v := s.usage([]*event.Admission{open}, nil).Verdicts[0]; v.Decision != event.Decision_ADMITTED {
		t.Fatalf("verdict %v", v)
	}
	r.stop()
	s.forget(alice)

	r = s.start(billing.Config{}, 0)
	s.usage(nil, []*event.Settlement{{RequestId: open.RequestId, Result: event.Result_VOID, Account: alice, QuotaKey: open.QuotaKey}})
	s.decides(alice, event.Decision_ACCOUNT_QUARANTINED)
	s.decides(bob, event.Decision_ADMITTED)
	eventually.True(t, "the alert is logged", s.log.has("the account is in quarantine"))
	if u := s.usageOf(alice); u.QuarantinedMs == 0 || !strings.Contains(u.QuarantineReason, "used requests") {
		t.Errorf("usage %v", u)
	}
	if s.audit().Match {
		t.Error("the audit does not notice the state that was changed")
	}

	s.kill(r) // the quarantine is decided again
	r = s.start(billing.Config{}, 0)
	s.decides(alice, event.Decision_ACCOUNT_QUARANTINED)
	r.stop() // it is in the snapshot
	r = s.start(billing.Config{}, 0)
	defer r.stop()
	s.decides(alice, event.Decision_ACCOUNT_QUARANTINED)
	s.decides(bob, event.Decision_ADMITTED)
	const metric = `quire_billing_quarantined_accounts{partition="0"} `
	eventually.True(t, "the metric counts it", func() bool { return strings.Contains(r.exposed(), metric+"1") })

	if o := s.command(&event.Command{Account: alice, Action: &event.Command_Resume{Resume: &event.Resume{Reason: "looked at"}}}); o.Status != event.CommandStatus_COMMAND_OK {
		t.Fatalf("resume: %v", o)
	}
	s.decides(alice, event.Decision_ADMITTED)
	eventually.True(t, "the metric counts none", func() bool { return strings.Contains(r.exposed(), metric+"0") })
	if u := s.usageOf(alice); u.QuarantinedMs != 0 || u.QuarantineReason != "" {
		t.Errorf("resumed: %v", u)
	}
}

func (s *stack) decides(id uint64, want event.Decision) {
	s.t.Helper()
	if v := s.usage([]*event.Admission{admission(id, plan.LiteGet)}, nil).Verdicts[0]; v.Decision != want {
		s.t.Fatalf("%x: %v, want %v", id, v, want)
	}
}

// forget replaces the snapshot by one in which an account has used nothing, as bad memory or a bug might have left it.
func (s *stack) forget(id uint64) {
	s.t.Helper()
	written := s.snapshots()
	if len(written) != 1 {
		s.t.Fatalf("snapshots %v", written)
	}
	state := &event.BillingState{}
	if err := event.Decode(s.read(written[0].Key), state); err != nil {
		s.t.Fatal(err)
	}
	for _, a := range state.Accounts {
		if a.Account == id {
			a.Months[0].Usage = nil
		}
	}
	fold, err := account.Restore(state)
	if err != nil {
		s.t.Fatal(err)
	}
	image, err := fold.Image()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.blobs.Delete(s.t.Context(), written[0].Key); err != nil {
		s.t.Fatal(err)
	}
	if _, _, err := snapshots.New(s.blobs, s.views, "BILLING_0", slog.New(slog.DiscardHandler)).Write(s.t.Context(), image); err != nil {
		s.t.Fatal(err)
	}
}
