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
	h.append(SettledFile, b)
}

// wantSettled expects that so many uploads were settled, each once.
func (h *history) wantSettled(n uint64, open int) {
	h.t.Helper()
	u := h.fold.UsageAt(event.AccountID(alice), h.now)
	if got := u.StorageUsedBytes >> 20; got != n || h.fold.OpenHolds() != open {
		h.t.Fatalf("%d uploads are stored, want %d; %d holds are open, want %d", got, n, h.fold.OpenHolds(), open)
	}
}

// TestAStreamThatWasRestoredIsSettled: its sequences belonged to other requests before. Each request is settled once.
func TestAStreamThatWasRestoredIsSettled(t *testing.T) {
	for name, kept := range map[string]uint64{"recreated": 0, "restored": 2} { // requests left in the stream
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, plan.Published(10))
			h.account(alice, plan.Pro)
			var first []requestAt
			for sequence := range uint64(4) {
				r := h.write(sequence + 1)
				h.settled(r)
				first = append(first, r)
			}
			h.wantSettled(4, 0)
			h.settled(first[:kept]...) // the service folds them again
			h.wantSettled(4, 0)
			for n := range uint64(6) {
				r := h.write(kept + 1 + n)
				h.settled(r)
				h.settled(r) // again, because the acknowledgement was lost
				h.wantSettled(5+n, 0)
			}
			h.settled(first...) // an instance that was cut off sends what the old stream had
			h.wantSettled(10, 0)
			if marks := h.fold.Watermarks(); marks["FILE_0"] != kept+6 {
				t.Errorf("marks %v", marks)
			}
			h.sound()
		})
	}
}

// TestOneBatchOfANewStream: all its settlements count, including those that share a sequence.
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

// TestAnIdleEdgeIsForgotten after an hour, and a domain's stream never.
func TestAnIdleEdgeIsForgotten(t *testing.T) {
	l := sources{}
	l.get("edge", 2000).numbered = true
	l.get("FILE_0", 2000).watermark = 7
	l.turnBack(1000)
	if l.sweep(1000 + sourceMillis - 1); len(l) != 2 {
		t.Errorf("forgotten within the hour: %v", l)
	}
	restored := sources{}
	restored.restore(l.states())
	if restored.sweep(1000 + sourceMillis); len(restored) != 1 || restored.Watermarks()["FILE_0"] != 7 {
		t.Errorf("after the hour there are %v", restored)
	}
}
