package account

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// requestAt is a request of a document journal.
type requestAt struct {
	admission *event.Admission
	sequence  uint64
	stored    int64
}

// write admits a write that the document journal stores now.
func (h *history) write(sequence uint64) requestAt {
	h.t.Helper()
	h.now += 1_000
	a := h.admission(alice, plan.FilesUpload)
	a.Write = true
	h.want(a, admitted)
	return requestAt{a, sequence, h.now}
}

// settled settles requests in one batch, as their service does.
func (h *history) settled(requests ...requestAt) {
	h.t.Helper()
	h.now += 10
	b := &event.UsageBatch{Source: "FILE_0", StampMs: h.now}
	for _, r := range requests {
		s := settlementOf(r.admission, event.Result_SERVED)
		s.Sequence, s.StoredMs, s.StorageDelta, s.StorageAtMs = r.sequence, r.stored, 1<<20, r.stored
		b.Settlements = append(b.Settlements, s)
	}
	kind := Usage
	if h.fold.rules >= RulesHolders {
		kind = SettledFile
	}
	h.append(kind, b)
}

// wantSettled expects that so many uploads were settled, each once.
func (h *history) wantSettled(n uint64, open int) {
	h.t.Helper()
	u := h.fold.UsageAt(event.AccountID(alice), h.now)
	if got := u.StorageUsedBytes >> 20; got != n || h.fold.OpenHolds() != open {
		h.t.Fatalf("%d uploads are stored, want %d; %d holds are open, want %d", got, n, h.fold.OpenHolds(), open)
	}
}

// TestAStreamThatWasRestoredIsSettled: its sequences were given to other requests before. Each request is settled once.
func TestAStreamThatWasRestoredIsSettled(t *testing.T) {
	for name, c := range map[string]struct {
		kept     uint64 // requests that the stream still has
		upgraded bool   // the first ones were settled under the first rules, without times
	}{
		"made anew":                       {0, false},
		"restored":                        {2, false},
		"made anew, settled in old times": {0, true},
		"restored, settled in old times":  {2, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, nil)
			if c.upgraded {
				h.rules = RulesFirst
			}
			h.prices(plan.Published(10))
			h.account(alice, plan.Pro)
			var first []requestAt
			for sequence := range uint64(4) {
				r := h.write(sequence + 1)
				sent := r
				if c.upgraded {
					sent.stored = 0
				}
				h.settled(sent)
				first = append(first, r)
			}
			if c.upgraded {
				h.rules = NewestRules
				h.wait(time.Minute).prices(plan.Published(10))
				h.wait(time.Minute)
			}
			h.wantSettled(4, 0)
			h.settled(first[:c.kept]...) // the service folds them again
			h.wantSettled(4, 0)
			for n := range uint64(6) {
				r := h.write(c.kept + 1 + n)
				h.settled(r)
				h.settled(r) // again, because the acknowledgement was lost
				h.wantSettled(5+n, 0)
			}
			h.settled(first...) // an instance that was cut off sends what the old stream had
			h.wantSettled(10, 0)
			if marks := h.fold.Marks(); marks["FILE_0"] != c.kept+6 {
				t.Errorf("marks %v", marks)
			}
			h.sound()
		})
	}
}

// TestOneBatchOfANewStream: all its settlements count, those that share a sequence included.
func TestOneBatchOfANewStream(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Pro)
	h.wait(time.Minute)
	old := []requestAt{h.write(1), h.write(2), h.write(3)}
	h.settled(old...)
	a, b, c := h.write(1), h.write(1), h.write(2)
	b.stored = a.stored
	h.settled(a, b, c)
	h.wantSettled(6, 0)
	h.settled(a, b, c)
	h.settled(old...)
	h.wantSettled(6, 0)
	h.sound()
}

// TestSettlementsWithoutATimeGoBySequence: those of an earlier version of the document services.
func TestSettlementsWithoutATimeGoBySequence(t *testing.T) {
	for rules, open := range map[uint32]int{
		RulesSafe:    1,
		RulesHolders: 0, // the hold goes by its id, and only the storage by the sequence
	} {
		h := newHistory(t, nil)
		h.rules = rules
		h.prices(plan.Published(10))
		h.account(alice, plan.Pro)
		r := h.write(5)
		h.settled(r)
		again := h.write(5)
		again.stored = 0
		h.settled(again)
		h.wantSettled(1, open)
		h.sound()
	}
}

// TestARequestThatWasSettledWithoutItsTimeIsSettledOnce: an instance of the version before settles it without the time, and
// one of this version settles it again from its checkpoint, with the time.
func TestARequestThatWasSettledWithoutItsTimeIsSettledOnce(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Pro)
	h.wait(time.Minute)
	r := h.write(5)
	old := r
	old.stored = 0
	h.settled(old)
	h.wait(time.Minute).settled(r)
	h.wantSettled(1, 0)
	if marks := h.fold.Marks(); marks["FILE_0"] != 5 {
		t.Errorf("marks %v", marks)
	}
	h.wait(time.Minute)
	anew := h.write(5) // stored after all that was settled
	h.settled(anew)
	h.settled(anew, r)
	h.wantSettled(2, 0)
	h.sound()
}
