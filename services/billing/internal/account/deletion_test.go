package account

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestADeletionCanBeTakenBackFor14Days, to the millisecond of the journal's time.
func TestADeletionCanBeTakenBackFor14Days(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.account(bob, plan.Pro)
	h.grant(alice, 5_000, 0)
	const days = 14 * 24 * time.Hour
	status := func(c *event.Command, want event.CommandStatus) *event.CommandOutcome {
		t.Helper()
		o := h.command(c)
		if o.Status != want {
			t.Fatalf("%v: %v, want %v", c, o, want)
		}
		return o
	}
	const ok, no, gone = event.CommandStatus_COMMAND_OK, event.CommandStatus_COMMAND_INVALID, event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND
	status(eraseAccount(alice), no) // nobody has requested it
	before := h.admission(alice, plan.PastesGet)
	h.want(before, admitted)
	due := h.now + days.Milliseconds()
	if o := status(deleteAccount(alice), ok); o.DeletesMs != due || len(h.changed) != 1 || h.changed[0] != event.AccountID(alice) {
		t.Fatalf("%v, announced %v, want %d", o, h.changed, due)
	}
	h.now += 1000
	if o := status(deleteAccount(alice), ok); o.DeletesMs != due {
		t.Fatalf("asked again, it is put off: %v", o)
	}
	if v := h.want(h.admission(alice, plan.PastesGet), event.Decision_ACCOUNT_SUSPENDED); !v.Final {
		t.Fatalf("%v", v)
	}
	h.want(h.admission(bob, plan.PastesGet), admitted)
	h.served(before)
	if u := h.fold.UsageAt(event.AccountID(alice), h.now); u.DeletesMs != due || u.SuspendedMs != 0 {
		t.Fatalf("%v", u)
	}
	if o := status(keepAccount(alice), ok); o.DeletesMs != 0 {
		t.Fatalf("%v", o)
	}
	h.want(h.admission(alice, plan.PastesGet), admitted)

	due = status(deleteAccount(alice), ok).DeletesMs
	h.now = due - 1
	status(eraseAccount(alice), no)
	h.now = due
	status(eraseAccount(alice), ok)
	h.want(h.admission(alice, plan.PastesGet), invalid)
	for _, c := range []*event.Command{
		keepAccount(alice), deleteAccount(alice), eraseAccount(alice), grantOf(alice, 5, 0), setTier(alice, plan.Max), resume(alice), suspend(alice),
		{Account: alice, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{Fingerprint: 1}}},
	} {
		status(c, gone)
	}
	status(create(alice, plan.Free), event.CommandStatus_COMMAND_ACCOUNT_EXISTS)
	u := h.fold.UsageAt(event.AccountID(alice), h.now)
	if u.ErasedMs != due || u.DeletesMs != 0 || u.KeyVersion != 0 || u.KeyPrefix != "" || u.BalanceMicros != 5_000 {
		t.Fatalf("%v", u)
	}
	if s := h.fold.Summary(alice); s.ErasedMs != due {
		t.Fatalf("%v", s)
	}
	h.sound()
}

// TestADeletionIsNotPutOffByAClockThatWasAhead.
func TestADeletionIsNotPutOffByAClockThatWasAhead(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	now := h.now
	h.now += 40 * 24 * time.Hour.Milliseconds()
	h.command(deleteAccount(alice))
	h.now = now
	h.tick()
	if u := h.fold.UsageAt(event.AccountID(alice), h.now); u.DeletesMs > h.now+DeletionMillis {
		t.Fatalf("deleted in %v", time.Duration(u.DeletesMs-h.now)*time.Millisecond)
	}
	h.sound()
}
