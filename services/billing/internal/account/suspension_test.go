package account

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestASuspendedAccountIsAdmittedNothing: neither within quota nor by credits, nor for a served idempotency id. Earlier
// admissions are settled as usual, and nothing is taken from the account.
func TestASuspendedAccountIsAdmittedNothing(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.account(bob, plan.Admin)
	h.grant(alice, 5_000, 0)
	before, repeated := h.admission(alice, plan.PastesGet), h.admission(alice, plan.PastesCreate)
	repeated.IdempotencyId = []byte("0123456789abcdef")
	h.want(before, admitted)
	h.want(repeated, admitted)
	h.served(repeated)

	o := h.command(suspend(alice))
	if o.Status != event.CommandStatus_COMMAND_OK || o.SuspendedMs != h.now {
		t.Fatalf("%v", o)
	}
	if len(h.changed) != 1 || h.changed[0] != event.AccountID(alice) {
		t.Fatalf("announced: %v", h.changed)
	}
	again := proto.Clone(repeated).(*event.Admission)
	again.RequestId = h.requestID()
	for _, a := range []*event.Admission{h.admission(alice, plan.PastesGet), h.admission(alice, plan.LiteList), again} {
		if v := h.want(a, event.Decision_ACCOUNT_SUSPENDED); !v.Final || v.Held || v.RetryAfterSeconds != 0 {
			t.Fatalf("%v", v)
		}
	}
	wrong := h.admission(alice, plan.PastesGet)
	wrong.KeyVersion = 7
	h.want(wrong, invalid)
	h.want(h.admission(bob, plan.PastesGet), admitted)
	h.served(before)
	if u := h.usedBy(alice, plan.PastesGet); u.Used != 1 || h.balance(alice) != 5_000 {
		t.Fatalf("%v, %d", u, h.balance(alice))
	}
	u := h.fold.UsageAt(event.AccountID(alice), h.now)
	if u.SuspendedMs == 0 || u.SuspensionReason != "spam" || h.fold.Summary(alice).SuspendedMs == 0 || h.fold.Summary(bob).SuspendedMs != 0 {
		t.Fatalf("%v", u)
	}

	since := u.SuspendedMs
	h.now += 1000
	if o := h.command(suspend(alice)); o.SuspendedMs != since {
		t.Fatalf("suspended again, since %d: %v", since, o)
	}
	if o := h.command(resume(alice)); o.Status != event.CommandStatus_COMMAND_OK || o.SuspendedMs != 0 {
		t.Fatalf("%v", o)
	}
	h.want(h.admission(alice, plan.PastesGet), admitted)
	if o := h.command(suspend(net1)); o.Status != event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND {
		t.Fatalf("%v", o)
	}
}

// TestEachActionOfAnAdminIsTold, once, with what it did and how it ended, and decides nothing by itself.
func TestEachActionOfAnAdminIsTold(t *testing.T) {
	h := historyOf(t)
	admin := func(c *event.Command) *event.AdminEntry {
		t.Helper()
		c.RequestId, c.Admin, h.told = h.requestID(), &event.AdminAction{Token: "ann"}, nil
		h.command(c)
		if len(h.told) != 1 {
			t.Fatalf("%v", h.told)
		}
		e := h.told[0]
		if string(e.RequestId) != string(c.RequestId) || e.Token != "ann" || e.TimeMs != h.now || e.Account != c.Account {
			t.Fatalf("%v", e)
		}
		return e
	}
	kept := grantOf(alice, 7, 0)
	kept.IdempotencyId = []byte("0123456789abcdef")
	for _, want := range []struct {
		command  *event.Command
		action   string
		status   event.CommandStatus
		replayed bool
		detail   string
	}{
		{create(alice, plan.Pro), actionCreate, event.CommandStatus_COMMAND_OK, false, ""},
		{setTier(alice, plan.Max), actionTier, event.CommandStatus_COMMAND_OK, false, ""},
		{kept, actionGrant, event.CommandStatus_COMMAND_OK, false, "grant of 7"},
		{kept, actionGrant, event.CommandStatus_COMMAND_OK, true, "grant of 7"},
		{grantOf(alice, -8, 0), actionGrant, event.CommandStatus_COMMAND_INSUFFICIENT_CREDITS, false, "grant of -8"},
		{&event.Command{Account: alice, Action: &event.Command_RotateKey{RotateKey: &event.RotateKey{}}}, actionKey, event.CommandStatus_COMMAND_OK, false, ""},
		{suspend(alice), actionSuspend, event.CommandStatus_COMMAND_OK, false, "spam"},
		{resume(alice), actionResume, event.CommandStatus_COMMAND_OK, false, "sorry"},
		{&event.Command{Account: alice, Action: &event.Command_Note{Note: &event.Note{Action: "password.set"}}}, "password.set", event.CommandStatus_COMMAND_OK, false, ""},
		{&event.Command{Action: &event.Command_Note{Note: &event.Note{Action: "audit.start", Detail: "d"}}}, "audit.start", event.CommandStatus_COMMAND_OK, false, "d"},
		{&event.Command{Account: bob, Action: &event.Command_Note{Note: &event.Note{Action: "account.read"}}}, "account.read", event.CommandStatus_COMMAND_ACCOUNT_NOT_FOUND, false, ""},
	} {
		e := admin(want.command)
		if e.Action != want.action || e.Status != want.status || e.Replayed != want.replayed || e.Detail != want.detail {
			t.Errorf("%v, want %v", e, want)
		}
	}
	h.told = nil
	if h.command(setTier(alice, plan.Pro)); len(h.told) != 0 { // no admin asked
		t.Errorf("%v", h.told)
	}
}
