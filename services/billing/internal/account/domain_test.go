package account

import (
	"math"
	"slices"
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

func TestEachDomainHasItsKindOfSettlements(t *testing.T) {
	for _, d := range event.Documents() {
		if SettledBy(d).domain() != d {
			t.Errorf("%s settles with kind %d, which is of %q", d, SettledBy(d), SettledBy(d).domain())
		}
	}
	if SettledBy(event.Billing) != Unknown || Usage.domain() != "" {
		t.Error("billing settles as a domain")
	}
}

// sends folds a batch on a domain's subject and returns why settlements were refused.
func (h *history) sends(kind Kind, b *event.UsageBatch) []RefusalReason {
	h.t.Helper()
	b.StampMs = h.now
	data, err := event.Encode(b)
	if err != nil {
		h.t.Fatalf("%v", err)
	}
	m := Message{Sequence: uint64(len(h.messages)) + 1, TimeNanos: h.now * nanosPerMilli, Kind: kind, Data: data}
	h.messages = append(h.messages, m)
	effects, err := h.fold.Apply(m)
	if err != nil {
		h.t.Fatalf("apply %d: %v", m.Sequence, err)
	}
	h.ledger = append(h.ledger, effects.Ledger...)
	h.chains.add(h.t, effects.Entries)
	var reasons []RefusalReason
	for _, r := range effects.Refused {
		if !slices.Contains(RefusalReasons(), r.Reason) || r.Count == 0 || r.Source != b.Source {
			h.t.Fatalf("refused %v of %s", r, b.Source)
		}
		reasons = append(reasons, r.Reason)
	}
	return reasons
}

// writing admits a write of an account.
func (h *history) writing(key plan.QuotaKey) *event.Admission {
	h.t.Helper()
	a := h.admission(alice, key)
	a.Write = true
	h.want(a, admitted)
	return a
}

// TestADomainSettlesItsOwnWritesOnly: whatever a document service sends on its subject, it closes no hold of another domain,
// charges nobody, counts no failure and sets no foreign storage.
func TestADomainSettlesItsOwnWritesOnly(t *testing.T) {
	served := func(a *event.Admission) *event.Settlement {
		s := settlementOf(a, event.Result_SERVED)
		s.Sequence, s.StoredMs = 1, at("2026-10-15T12:00:00Z")
		return s
	}
	for name, c := range map[string]struct {
		from   string // LITE_0 by default
		change func(b *event.UsageBatch, s *event.Settlement, others map[plan.QuotaKey]*event.Admission)
		reason RefusalReason
	}{
		"a hold of another domain": {change: func(_ *event.UsageBatch, s *event.Settlement, others map[plan.QuotaKey]*event.Admission) {
			s.RequestId, s.QuotaKey = others[plan.FilesUpload].RequestId, uint32(plan.FilesUpload)
		}, reason: RefusedQuotaKey},
		"a hold of another domain by a quota key of its own": {change: func(_ *event.UsageBatch, s *event.Settlement, others map[plan.QuotaKey]*event.Admission) {
			s.RequestId = others[plan.FilesUpload].RequestId
		}, reason: RefusedHold},
		"a hold of another quota key": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.QuotaKey = uint32(plan.LiteDelete)
		}, reason: RefusedHold},
		"a read": {change: func(_ *event.UsageBatch, s *event.Settlement, others map[plan.QuotaKey]*event.Admission) {
			s.RequestId, s.QuotaKey = others[plan.LiteGet].RequestId, uint32(plan.LiteGet)
		}, reason: RefusedQuotaKey},
		"a write that its edge settles": {change: func(_ *event.UsageBatch, s *event.Settlement, others map[plan.QuotaKey]*event.Admission) {
			s.RequestId, s.QuotaKey = others[plan.LiteUpdate].RequestId, uint32(plan.LiteUpdate)
		}, reason: RefusedHold},
		"the hold of another account": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.Account = bob
		}, reason: RefusedHold},
		"an account as a network": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.Anonymous = true
		}, reason: RefusedHold},
		"a request that was never admitted": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.RequestId = []byte("0123456789abcdef")
		}, reason: RefusedHold},
		"a failure without a hold": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.RequestId, s.Result, s.Failed = []byte("0123456789abcdef"), event.Result_VOID, true
		}, reason: RefusedHold},
		"storage beside its own hold": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.StorageDelta = plan.GB
		}, reason: RefusedStorage},
		"storage alone": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			*s = event.Settlement{Account: alice, Sequence: 1, StoredMs: 1, StorageDelta: plan.GB}
		}, reason: RefusedStorage},
		"without a sequence": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.Sequence = 0
		}, reason: RefusedMalformed},
		"without a time": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.StoredMs = 0
		}, reason: RefusedMalformed},
		"without a result": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.Result = event.Result_RESULT_UNSPECIFIED
		}, reason: RefusedMalformed},
		"a short id": {change: func(_ *event.UsageBatch, s *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			s.RequestId = s.RequestId[:8]
		}, reason: RefusedMalformed},
		"as an edge": {change: func(b *event.UsageBatch, _ *event.Settlement, _ map[plan.QuotaKey]*event.Admission) {
			b.Number = 7
		}, reason: RefusedMalformed},
		"with an admission": {change: func(b *event.UsageBatch, _ *event.Settlement, others map[plan.QuotaKey]*event.Admission) {
			b.Admissions = append(b.Admissions, others[plan.LiteGet])
		}, reason: RefusedMalformed},
		"the stream of another domain": {from: "FILE_0", reason: RefusedSource},
		"no stream":                    {from: "edge", reason: RefusedSource},
		"no partition":                 {from: "LITE", reason: RefusedSource},
		"another name of a stream":     {from: "LITE_00", reason: RefusedSource},
		"a partition below 0":          {from: "LITE_-1", reason: RefusedSource},
		"a partition too many":         {from: event.Lite.Stream(maxStreams), reason: RefusedSource},
	} {
		t.Run(name, func(t *testing.T) {
			h := historyOf(t)
			h.account(alice, plan.Pro)
			h.account(bob, plan.Pro)
			others := map[plan.QuotaKey]*event.Admission{plan.FilesUpload: h.writing(plan.FilesUpload)}
			for _, key := range []plan.QuotaKey{plan.LiteGet, plan.LiteUpdate} {
				others[key] = h.admission(alice, key)
				h.want(others[key], admitted)
			}
			own := h.writing(plan.LiteCreate)
			before := h.fold.UsageAt(event.AccountID(alice), h.now).String()
			open := h.fold.OpenHolds()
			if c.from == "" {
				c.from = "LITE_0"
			}
			s := served(own)
			b := &event.UsageBatch{Source: c.from, Settlements: []*event.Settlement{s}}
			if c.change != nil {
				c.change(b, s, others)
			}
			if reasons := h.sends(SettledLite, b); !slices.Equal(reasons, []RefusalReason{c.reason}) {
				t.Errorf("refused for %q, want %q", reasons, c.reason)
			}
			after := h.fold.UsageAt(event.AccountID(alice), h.now).String()
			if after != before || h.fold.OpenHolds() != open || len(h.fold.principals.accounts[alice].failures) > 0 || len(h.ledger) > 0 {
				t.Errorf("it had an effect: %d holds of %d are open\n%s\n%s", h.fold.OpenHolds(), open, after, before)
			}
			// The true service continues as if nothing had happened.
			if reasons := h.sends(SettledLite, &event.UsageBatch{Source: event.Lite.Stream(maxStreams - 1), Settlements: []*event.Settlement{served(own)}}); reasons != nil {
				t.Errorf("its own write: %q", reasons)
			}
			if h.fold.OpenHolds() != open-1 {
				t.Error("its own write is still open")
			}
		})
	}
}

// TestTheSameSettlementCountsOnce: whatever the sequences of the stream are.
func TestTheSameSettlementCountsOnce(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	for i, key := range []plan.QuotaKey{plan.FilesUpload, plan.PastesCreate, plan.LiteCreate} {
		a := h.writing(key)
		for sequence := range uint64(3) {
			s := settlementOf(a, event.Result_SERVED)
			s.Sequence, s.StoredMs = 10-sequence, h.now
			h.sends(SettledBy(domainOf(key)), &event.UsageBatch{Source: domainOf(key).Stream(0), Settlements: []*event.Settlement{s}})
		}
		if used := h.usedBy(alice, key).Used; used != 1 || h.fold.OpenHolds() != 0 {
			t.Errorf("%d: %d used, %d open", i, used, h.fold.OpenHolds())
		}
	}
}

// TestAMarkThatIsFarAheadStopsNothing: a service that claims the end of all sequences, in some far year, can't keep billing
// from counting its stream's later messages.
func TestAMarkThatIsFarAheadStopsNothing(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	for _, stored := range []int64{math.MaxInt64, h.now + skewMillis, h.now + 1} {
		h.sends(SettledFile, &event.UsageBatch{Source: "FILE_0", Settlements: []*event.Settlement{
			{Account: alice, Sequence: math.MaxUint64, StoredMs: stored, StorageDelta: 1 << 20},
		}})
	}
	a := h.writing(plan.FilesUpload)
	own := settlementOf(a, event.Result_SERVED)
	own.Sequence, own.StoredMs = 1, h.now
	if reasons := h.sends(SettledFile, &event.UsageBatch{Source: "FILE_0", Settlements: []*event.Settlement{own}}); reasons != nil || h.fold.OpenHolds() != 0 {
		t.Fatalf("refused for %q", reasons)
	}
	before := h.fold.UsageAt(event.AccountID(alice), h.now).StorageUsedBytes
	h.wait(skewMillis*time.Millisecond + time.Second)
	for sequence := range uint64(3) {
		for range 2 {
			h.sends(SettledFile, &event.UsageBatch{Source: "FILE_0", Settlements: []*event.Settlement{
				{Account: alice, Sequence: sequence + 2, StoredMs: h.now, StorageDelta: 1 << 20},
			}})
		}
	}
	if got := (h.fold.UsageAt(event.AccountID(alice), h.now).StorageUsedBytes - before) >> 20; got != 3 {
		t.Errorf("%d of 3 files are counted", got)
	}
}

// TestAClockAheadIsNoReasonToCountAFileTwice: the clock of a document journal's server is an hour ahead of billing's.
func TestAClockAheadIsNoReasonToCountAFileTwice(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	for range 3 {
		h.wait(time.Second)
		for range 2 {
			h.sends(SettledFile, &event.UsageBatch{Source: "FILE_0", Settlements: []*event.Settlement{
				{Account: alice, Sequence: uint64(h.now), StoredMs: h.now + 3_600_000, StorageDelta: 1 << 20},
			}})
		}
	}
	if got := h.fold.UsageAt(event.AccountID(alice), h.now).StorageUsedBytes >> 20; got != 3 {
		t.Errorf("3 files count as %d", got)
	}
}

// TestAVoidedWriteIsChargedForADay: a time-out or an edge has voided it, and its service reports later that it was served.
func TestAVoidedWriteIsChargedForADay(t *testing.T) {
	for name, void := range map[string]func(h *history, a *event.Admission){
		"by a time-out": func(h *history, _ *event.Admission) { h.wait(HoldMillis * time.Millisecond).tick() },
		"by its edge":   func(h *history, a *event.Admission) { h.voided(a) },
	} {
		for _, keyless := range []bool{false, true} {
			for _, c := range []struct {
				late time.Duration
				used int
			}{{time.Minute, 1}, {LateMillis*time.Millisecond - 1, 1}, {LateMillis*time.Millisecond - time.Millisecond, 1}, {LateMillis * time.Millisecond, 0}} {
				h := historyOf(t)
				h.account(alice, plan.Pro)
				a := h.admission(alice, plan.LiteCreate)
				if keyless {
					a = h.anonymous()
				}
				a.Write = true
				h.want(a, admitted)
				void(h, a)
				h.wait(c.late)
				s := settlementOf(a, event.Result_SERVED)
				s.Sequence, s.StoredMs = 1, h.now
				reasons := h.sends(SettledLite, &event.UsageBatch{Source: "LITE_0", Settlements: []*event.Settlement{s}})
				s.Sequence = 2
				h.sends(SettledLite, &event.UsageBatch{Source: "LITE_0", Settlements: []*event.Settlement{s}})
				used := int(h.usedBy(alice, plan.LiteCreate).Used)
				if keyless {
					if used = 0; h.fold.principals.networks[net1] != nil {
						used = len(h.fold.principals.networks[net1].admitted)
					}
				}
				if used != c.used || (c.used == 0) != slices.Equal(reasons, []RefusalReason{RefusedHold}) {
					t.Errorf("%s, keyless %t, %v later: %d are used, want %d; refused for %q", name, keyless, c.late, used, c.used, reasons)
				}
			}
		}
	}
}

// TestAWriteThatItsServiceVoidedStaysVoid: its service has decided.
func TestAWriteThatItsServiceVoidedStaysVoid(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	for name, before := range map[string]func(*event.Admission){
		"open": func(*event.Admission) {}, "voided by its edge": h.voided,
	} {
		a := h.writing(plan.LiteCreate)
		before(a)
		h.domain(h.requests, settlementOf(a, event.Result_VOID))
		h.domain(h.requests+1, settlementOf(a, event.Result_SERVED))
		if used := h.usedBy(alice, plan.LiteCreate).Used; used != 0 {
			t.Errorf("%s: %d used", name, used)
		}
	}
}

// TestTheOldestOfTooManyVoidedWritesIsForgotten: memory is bounded.
func TestTheOldestOfTooManyVoidedWritesIsForgotten(t *testing.T) {
	for more, charged := range map[int]uint64{0: 1, 1: 0} {
		book := plan.Published(10)
		book.Plans[plan.Pro].Terms[plan.LiteCreate].Limit = plan.Unlimited
		h := newHistory(t, book)
		h.account(alice, plan.Pro)
		first := h.writing(plan.LiteCreate)
		h.voided(first)
		for left := maxLate - 1 + more; left > 0; {
			n := min(left, 1000)
			left -= n
			var admissions []*event.Admission
			var voids []*event.Settlement
			for range n {
				a := h.admission(alice, plan.LiteCreate)
				a.Write = true
				admissions, voids = append(admissions, a), append(voids, settlementOf(a, event.Result_VOID))
			}
			h.usage(admissions, nil)
			h.usage(nil, voids)
		}
		if got := len(h.fold.principals.accounts[alice].late); got != maxLate {
			t.Fatalf("%d are remembered", got)
		}
		h.domain(1, settlementOf(first, event.Result_SERVED))
		if used := h.usedBy(alice, plan.LiteCreate).Used; used != charged {
			t.Errorf("the oldest of %d is charged %d times, want %d", maxLate+more, used, charged)
		}
		h.wait(LateMillis * time.Millisecond).tick()
		if got := len(h.fold.principals.accounts[alice].late); got != 0 || h.fold.principals.late.len() != 0 {
			t.Errorf("%d are remembered for more than a day", got)
		}
		h.sound()
	}
}

// TestTheSubjectOfEdgesTakesNoSettlementsOfADomain: only the domain's own subject does.
func TestTheSubjectOfEdgesTakesNoSettlementsOfADomain(t *testing.T) {
	h := historyOf(t)
	h.account(alice, plan.Pro)
	s := settlementOf(h.writing(plan.LiteCreate), event.Result_SERVED)
	s.Sequence, s.StoredMs = 1, h.now
	b := &event.UsageBatch{Source: "LITE_0", Settlements: []*event.Settlement{s}}
	if reasons := h.sends(Usage, b); !slices.Equal(reasons, []RefusalReason{RefusedSource}) || h.fold.OpenHolds() != 1 {
		t.Errorf("refused for %q", reasons)
	}
	if reasons := h.sends(SettledLite, b); reasons != nil || h.fold.OpenHolds() != 0 {
		t.Errorf("on its own subject: %q", reasons)
	}
}
