package account

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// ahead is a history whose journal had a clock that was a day ahead.
func ahead(t *testing.T) *history {
	t.Helper()
	h := newHistory(t, plan.Published(1))
	h.account(alice, plan.Pro)
	h.account(bob, plan.Free)
	h.wait(24 * time.Hour)
	t.Cleanup(h.sound)
	return h
}

func (h *history) fails(id uint64, n int) {
	h.t.Helper()
	for range n {
		a := h.admission(id, plan.LiteGet)
		h.want(a, admitted)
		h.failed(a)
	}
}

// TestAClockThatCameBackLocksNobody for longer than the window of each rule.
func TestAClockThatCameBackLocksNobody(t *testing.T) {
	h := ahead(t)
	h.fails(alice, MaxFailures+1)
	h.want(h.admission(alice, plan.LiteGet), event.Decision_TOO_MANY_FAILURES)
	writing := h.admission(bob, plan.LiteUpdate)
	writing.Write, writing.IdempotencyId = true, []byte("0123456789abcdef")
	h.want(writing, admitted)
	keyless := h.anonymous()
	h.want(keyless, admitted)
	h.domain(1, settlementOf(keyless, event.Result_SERVED))

	h.wait(-24 * time.Hour)
	if v := h.want(h.admission(alice, plan.LiteGet), event.Decision_TOO_MANY_FAILURES); v.RetryAfterSeconds != FailureMillis/1000 {
		t.Errorf("failures lock for %v", v)
	}
	again := h.admission(bob, plan.LiteUpdate)
	again.IdempotencyId = writing.IdempotencyId
	h.want(again, event.Decision_IDEMPOTENCY_IN_FLIGHT)
	h.grant(alice, 5_000, h.now+3_600_000)
	h.wait((FailureMillis - 1) * time.Millisecond)
	h.want(h.admission(alice, plan.LiteGet), event.Decision_TOO_MANY_FAILURES)
	h.wait(time.Millisecond)
	h.want(h.admission(alice, plan.LiteGet), admitted)
	h.wait((HoldMillis - FailureMillis) * time.Millisecond)
	h.want(again, admitted)
	h.wait(24*time.Hour - (HoldMillis+1)*time.Millisecond)
	h.want(h.anonymous(), event.Decision_ANONYMOUS_LIMIT)
	h.wait(time.Millisecond)
	h.want(h.anonymous(), admitted)
}

// TestASlowSourceTurnsNothingBack: only the journal's clock does, and only beyond the tolerance of stamps.
func TestASlowSourceTurnsNothingBack(t *testing.T) {
	h := ahead(t)
	h.tick()
	at := h.fold.time
	h.append(Usage, &event.UsageBatch{Source: "slow", StampMs: h.now - 3_600_000})
	h.append(Usage, &event.UsageBatch{Source: "development", StampMs: h.now, OffsetMs: -3_600_000})
	h.wait(-backMillis * time.Millisecond).tick()
	if h.fold.time != at {
		t.Fatalf("the time went back by %d", at-h.fold.time)
	}
	h.wait(-time.Millisecond).tick()
	if h.fold.time != h.now {
		t.Fatalf("the time is %d ahead of the journal's", h.fold.time-h.now)
	}
}

// TestMonthsThatHaveBegunStayBegun: a clock that was ahead over a month's end reopens no month and no closed statement.
func TestMonthsThatHaveBegunStayBegun(t *testing.T) {
	h := historyOf(t)
	h.now = at("2026-10-31T12:00:00Z")
	h.account(bob, plan.Free)
	h.use(bob, plan.PastesDelete, 10)
	h.domain(1, &event.Settlement{Account: bob, StorageDelta: 20 * plan.GB})
	h.wait(48 * time.Hour)
	open := h.admission(bob, plan.PastesDelete)
	h.want(open, admitted)
	statement := func() *event.StatementAnswer {
		s, _ := h.fold.StatementAt(event.AccountID(bob), "2026-10", h.now)
		return s
	}
	closed := statement()
	h.wait(-47 * time.Hour)
	h.use(bob, plan.PastesDelete, 0)
	a := h.admission(bob, plan.PastesDelete)
	if v := h.want(a, admitted); v.Remaining != 8 || v.ResetSeconds != uint32((at("2026-12-01T00:00:00Z")-h.now)/1000) {
		t.Fatalf("in the month that has begun: %v", v)
	}
	h.voided(a)
	h.voided(open)
	h.domain(2, &event.Settlement{Account: bob, StorageDelta: -20 * plan.GB})
	if s := statement(); !closed.Closed || s.String() != closed.String() {
		t.Fatalf("closed as %v, then %v", closed, s)
	}
	h.now = at("2026-12-01T00:00:00Z")
	h.tick()
	// 20 GB from October 31st 12:00 to 13:00 were October's 12 hours, of which 11 were too many.
	s, _ := h.fold.StatementAt(event.AccountID(bob), "2026-11", h.now)
	if s.Usage[plan.PastesDelete-1].Used != 0 || s.StorageAverageBytes != 0 {
		t.Fatalf("november: %v", s)
	}
}
