package account

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// batchOf admits n requests in one batch.
func (h *history) batchOf(id uint64, key plan.QuotaKey, n int) ([]*event.Admission, []*event.Verdict) {
	h.t.Helper()
	var batch []*event.Admission
	for range n {
		batch = append(batch, h.admission(id, key))
	}
	return batch, h.usage(batch, nil).Verdicts
}

// atTheEnd is an account with one free files.get left, and credits.
func atTheEnd(t *testing.T) *history {
	t.Helper()
	h := historyOf(t)
	h.account(alice, plan.Pro)
	h.grant(alice, 100_000, 0)
	h.use(alice, plan.FilesGet, 499)
	return h
}

// wantPaid compares the payments with the ledger and the balance.
func (h *history) wantPaid(used, overage uint64) {
	h.t.Helper()
	u := h.usedBy(alice, plan.FilesGet)
	spent := int64(overage) * 1_000
	if u.Used != used || u.Overage != overage || u.SpentMicros != uint64(spent) || h.balance(alice) != 100_000-spent || h.ledgerSum(alice) != 100_000-spent {
		h.t.Fatalf("%v, balance %d, ledger %d, want %d used and %d paid", u, h.balance(alice), h.ledgerSum(alice), used, overage)
	}
}

func (h *history) explained(request []byte) *event.ExplainAnswer {
	h.t.Helper()
	f := New()
	trace := f.Watch(event.RequestID(request))
	for _, m := range h.messages {
		if _, err := f.Apply(m); err != nil {
			h.t.Fatalf("%v", err)
		}
	}
	return trace.Answer()
}

// TestFailedCallsBesideAGoodOneCostItNothing: 39 reads of a missing file and a successful one, with one free request left.
func TestFailedCallsBesideAGoodOneCostItNothing(t *testing.T) {
	for name, order := range map[string]func(h *history, failing []*event.Admission, good *event.Admission){
		"settled first": func(h *history, failing []*event.Admission, good *event.Admission) {
			h.served(good)
			for _, a := range failing {
				h.failed(a)
			}
			// It was charged, and is refunded with the id of the request.
			last := h.ledger[len(h.ledger)-1]
			if last.Type != event.LedgerType_LEDGER_ADJUSTMENT || last.AmountMicros != 1_000 || string(last.RequestId) != string(good.RequestId) {
				h.t.Fatalf("the ledger ends with %v", last)
			}
		},
		"settled last": func(h *history, failing []*event.Admission, good *event.Admission) {
			for _, a := range failing {
				h.failed(a)
			}
			h.served(good)
			// The client has seen the price, so the ledger shows it and its refund.
			entries := h.ledger[len(h.ledger)-2:]
			if entries[0].AmountMicros+entries[1].AmountMicros != 0 || entries[1].Type != event.LedgerType_LEDGER_CHARGE ||
				string(entries[0].RequestId) != string(good.RequestId) || string(entries[1].RequestId) != string(good.RequestId) {
				h.t.Fatalf("the ledger ends with %v", entries)
			}
		},
		"in one batch": func(h *history, failing []*event.Admission, good *event.Admission) {
			settlements := []*event.Settlement{settlementOf(good, event.Result_SERVED)}
			for _, a := range failing {
				settlements = append(settlements, settlementOf(a, event.Result_VOID))
			}
			h.usage(nil, settlements)
		},
		"a time-out served the good one": func(h *history, failing []*event.Admission, good *event.Admission) {
			for _, a := range failing[1:] {
				h.voided(a)
			}
			h.wait(HoldMillis * time.Millisecond).tick()
			h.voided(failing[0]) // late: served by a time-out
			h.served(good)
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := atTheEnd(t)
			failing, _ := h.batchOf(alice, plan.FilesGet, 39)
			good := h.admission(alice, plan.FilesGet)
			if v := h.want(good, admitted); v.Charge != event.ChargeSource_CHARGE_CREDITS {
				t.Fatalf("all quota is held: %v", v)
			}
			order(h, failing, good)
			h.wantPaid(500, 0)
			e := h.explained(good.RequestId)
			if e.Charge != event.ChargeSource_CHARGE_QUOTA || e.CostMicros != 0 || len(e.Grants) != 0 || e.Verdict.CostMicros != 1_000 {
				t.Fatalf("explained as %v", e)
			}
			if len(h.fold.principals.accounts[alice].paid) != 0 {
				t.Fatal("requests are remembered that nothing can make free")
			}
			h.want(h.admission(alice, plan.FilesGet), admitted)
			h.wantPaid0(501)
		})
	}
}

// wantPaid0 expects one paid request in flight.
func (h *history) wantPaid0(used uint64) {
	h.t.Helper()
	if u := h.usedBy(alice, plan.FilesGet); u.Used != used || u.Overage != 1 {
		h.t.Fatalf("%v", u)
	}
}

func TestTheNewestPaidRequestsBecomeFree(t *testing.T) {
	h := atTheEnd(t)
	failing := h.admission(alice, plan.FilesGet)
	h.want(failing, admitted)
	paid, _ := h.batchOf(alice, plan.FilesGet, 3)
	for _, a := range []int{2, 0, 1} {
		h.served(paid[a])
	}
	if kept := h.fold.principals.accounts[alice].paid; len(kept) != 1 || len(kept[0].items) != 1 {
		t.Fatalf("%v are remembered, for one open hold", kept)
	}
	h.voided(failing)
	if last := h.ledger[len(h.ledger)-1]; string(last.RequestId) != string(paid[2].RequestId) {
		t.Fatalf("%x came back, want %x", last.RequestId, paid[2].RequestId)
	}
	h.wantPaid(502, 2)
}

// TestAChangeOfTierMovesNothingThatWasPaid: neither the change itself nor later failed calls refund anything.
func TestAChangeOfTierMovesNothingThatWasPaid(t *testing.T) {
	h := atTheEnd(t)
	failing := h.admission(alice, plan.FilesGet)
	h.want(failing, admitted)
	paid, _ := h.batchOf(alice, plan.FilesGet, 2)
	h.served(paid[0])
	h.command(setTier(alice, plan.Pro)) // no change
	if len(h.fold.principals.accounts[alice].paid) != 1 {
		t.Fatal("the same tier again ended the terms")
	}
	h.command(setTier(alice, plan.Max))
	h.voided(failing)
	h.served(paid[1])
	h.wantPaid(501, 2)
	failing = h.admission(alice, plan.FilesGet)
	h.want(failing, admitted)
	h.failed(failing)
	h.wantPaid(501, 2)
	h.command(setTier(alice, plan.Pro))
	failing = h.admission(alice, plan.FilesGet)
	h.want(failing, admitted)
	h.failed(failing)
	h.wantPaid(501, 2)
}

func TestARefusalSaysWhetherOpenHoldsMayUndoIt(t *testing.T) {
	h := historyOf(t)
	h.account(bob, plan.Free)
	h.use(bob, plan.PastesDelete, 9)
	failing := h.admission(bob, plan.PastesDelete)
	h.want(failing, admitted)
	if v := h.want(h.admission(bob, plan.PastesDelete), exhausted); !v.Held || v.Final || v.RetryAfterSeconds != 1 {
		t.Fatalf("the last request is held: %v", v)
	}
	h.voided(failing)
	last := h.admission(bob, plan.PastesDelete)
	h.want(last, admitted)
	h.served(last)
	if v := h.want(h.admission(bob, plan.PastesDelete), exhausted); v.Held || !v.Final || v.RetryAfterSeconds != v.ResetSeconds {
		t.Fatalf("all are served: %v", v)
	}
	// A hold beyond what is left changes nothing.
	h.account(alice, plan.Pro)
	h.grant(alice, 5_000, 0)
	h.use(alice, plan.FilesUpload, 100)
	h.want(h.admission(alice, plan.LiteGet), admitted)
	paying := h.admission(alice, plan.FilesUpload)
	h.want(paying, admitted)
	if v := h.want(h.admission(alice, plan.FilesUpload), exhausted); !v.Held {
		t.Fatalf("the credits are held: %v", v)
	}
	h.served(paying)
	if v := h.want(h.admission(alice, plan.FilesUpload), exhausted); v.Held {
		t.Fatalf("the credits are spent: %v", v)
	}
}

func TestAKeylessCallerIsToldOfHoldsToo(t *testing.T) {
	h := newHistory(t, plan.Published(1))
	a := h.anonymous()
	h.want(a, admitted)
	if v := h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT); !v.Held || v.RetryAfterSeconds != 1 {
		t.Fatalf("held: %v", v)
	}
	h.domain(1, settlementOf(a, event.Result_SERVED))
	if v := h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT); v.Held || !v.Final || v.RetryAfterSeconds < 2 {
		t.Fatalf("served: %v", v)
	}
}

// TestExplainAgreesWithTheLedgerAboutLateCharges: a write voided by a time-out is charged when its service reports, even much
// later, that it was served.
func TestExplainAgreesWithTheLedgerAboutLateCharges(t *testing.T) {
	for _, late := range []time.Duration{3 * time.Minute, time.Hour} {
		h := historyOf(t)
		h.account(alice, plan.Pro)
		h.grant(alice, 100_000, 0)
		h.use(alice, plan.FilesUpload, 99)
		a := h.admission(alice, plan.FilesUpload)
		a.Write = true
		if v := h.want(a, admitted); v.Charge != event.ChargeSource_CHARGE_QUOTA {
			t.Fatalf("%v", v)
		}
		h.wait(HoldMillis * time.Millisecond).tick()
		h.use(alice, plan.FilesUpload, 1)
		h.wait(late).tick()
		f := New()
		trace := f.Watch(event.RequestID(a.RequestId))
		for _, m := range h.messages {
			_, _ = f.Apply(m)
		}
		if trace.Done(f) || trace.Answer().Settlement != SettlementVoid {
			t.Fatalf("before the service says anything: %v", trace.Answer())
		}
		h.domain(1, settlementOf(a, event.Result_SERVED))
		e := h.explained(a.RequestId)
		if e.Settlement != SettlementServed || e.Charge != event.ChargeSource_CHARGE_CREDITS || e.CostMicros != 5_000 || len(e.Grants) != 1 {
			t.Fatalf("explained as %v", e)
		}
		last := h.ledger[len(h.ledger)-1]
		if last.AmountMicros != -int64(e.CostMicros) || string(last.RequestId) != string(a.RequestId) {
			t.Fatalf("the ledger has %v", last)
		}
	}
}

// TestExplainFollowsACallThatWaitedForAnAbandonedOne: the edge voids the hold of a call that a kill cut off, and sends the refused
// request again under the same id. The explanation is about what came of it, with the time that counts.
func TestExplainFollowsACallThatWaitedForAnAbandonedOne(t *testing.T) {
	h := historyOf(t)
	h.now = at("2026-11-30T23:59:59.9Z")
	h.account(alice, plan.Pro)
	abandoned, again := h.admission(alice, plan.PastesCreate), h.admission(alice, plan.PastesCreate)
	for _, a := range []*event.Admission{abandoned, again} {
		a.Write, a.IdempotencyId = true, []byte("0123456789abcdef")
	}
	h.want(abandoned, admitted)
	h.want(again, event.Decision_IDEMPOTENCY_IN_FLIGHT)
	h.voided(abandoned)
	h.wait(200 * time.Millisecond)
	h.want(again, admitted)
	h.domain(1, settlementOf(again, event.Result_SERVED))
	f := New()
	trace := f.Watch(event.RequestID(again.RequestId))
	for _, m := range h.messages {
		if trace.Done(f) {
			break
		}
		if _, err := f.Apply(m); err != nil {
			t.Fatal(err)
		}
	}
	if e := trace.Answer(); !trace.Done(f) || e.Settlement != SettlementServed || e.Charge != event.ChargeSource_CHARGE_QUOTA || e.TimeMs < at("2026-12-01T00:00:00Z") {
		t.Errorf("explained as %v", e)
	}
	// A refusal that nothing came of is final after a while.
	refused := h.admission(alice, plan.PastesCreate)
	refused.Write, refused.IdempotencyId = true, []byte("fedcba9876543210")
	other := h.admission(alice, plan.PastesCreate)
	other.Write, other.IdempotencyId = true, refused.IdempotencyId
	h.want(other, admitted)
	trace = h.fold.Watch(event.RequestID(refused.RequestId))
	h.want(refused, event.Decision_IDEMPOTENCY_IN_FLIGHT)
	for _, since := range []int64{againMillis, againMillis + 1} {
		h.now = trace.Answer().TimeMs + since
		h.tick()
		if done := trace.Done(h.fold); done != (since > againMillis) {
			t.Errorf("%d ms later it is final: %v", since, done)
		}
	}
}

// TestAClosedStatementDoesNotChange: late corrections of a closed month go into the current one.
func TestAClosedStatementDoesNotChange(t *testing.T) {
	h := historyOf(t)
	h.now = at("2026-11-01T00:00:00Z")
	h.account(alice, plan.Max)
	h.store(1, 100*plan.GB, 0)
	h.now = at("2026-12-01T23:59:59Z")
	h.store(2, -50*plan.GB, at("2026-11-16T00:00:00Z"))
	statement := func() *event.StatementAnswer {
		s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-11", h.now)
		return s
	}
	if s := statement(); s.Closed || s.StorageAverageBytes != 75*plan.GB {
		t.Fatalf("a day after the month: %v", s)
	}
	h.now = at("2026-12-02T00:00:00Z")
	h.tick()
	closed := statement()
	h.store(3, -50*plan.GB, at("2026-11-16T00:00:00Z"))
	if again := statement(); !closed.Closed || again.String() != closed.String() {
		t.Fatalf("closed as %v, then %v", closed, again)
	}
	h.now = at("2026-12-31T23:59:59Z")
	// 50 GB for the first day were nothing, and 15 days of November are owed: the month's sum is below zero.
	if u := h.fold.UsageAt(event.AccountID(alice), h.now); u.StorageUsedBytes != 0 || u.StorageAverageBytes != 0 {
		t.Fatalf("december: %v", u)
	}
	h.store(4, 100*plan.GB, at("2026-12-11T00:00:00Z"))
	h.now = at("2027-01-01T00:00:00Z")
	h.tick()
	s, _ := h.fold.StatementAt(event.AccountID(alice), "2026-12", h.now)
	if want := uint64((100*21 - 50*15) * plan.GB / 31); s.StorageAverageBytes != want {
		t.Fatalf("december: %v, want an average of %d", s, want)
	}
}
