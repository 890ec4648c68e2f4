package account

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// places settles by offset, and returns how many admissions are open afterwards.
func (h *history) places(served ...*event.Served) (open int) {
	h.t.Helper()
	h.number["edge"]++
	h.append(Usage, &event.UsageBatch{Source: "edge", Number: h.number["edge"], StampMs: h.now, Served: served})
	return h.fold.OpenHolds()
}

// TestReadsAreServedByTheirPlaces: exactly the named ones, from a snapshot too.
func TestReadsAreServedByTheirPlaces(t *testing.T) {
	for _, fromSnapshot := range []bool{false, true} {
		h := newHistory(t, plan.Published(10))
		h.account(alice, plan.Pro)
		var reads []*event.Admission
		for range 4 {
			reads = append(reads, h.admission(alice, plan.LiteGet))
		}
		write := h.admission(alice, plan.LiteCreate)
		write.Write = true
		sequence := h.usage(append(reads, write), nil).Sequence
		if fromSnapshot {
			h.fold = restored(t, h.fold)
		}
		if open := h.places(&event.Served{Sequence: sequence, Places: []uint32{3, 1}}); open != 3 {
			t.Errorf("%d admissions are open after two of five were served", open)
		}
		if open := h.places(&event.Served{Sequence: sequence}); open != 2 {
			t.Errorf("%d admissions are open after the first was served too", open)
		}
		for _, nothing := range []*event.Served{
			{Sequence: sequence, Places: []uint32{3}},       // already served
			{Sequence: sequence, Places: []uint32{4}},       // a write
			{Sequence: sequence, Places: []uint32{5}},       // beyond the last
			{Sequence: sequence, Places: []uint32{1 << 31}}, // far beyond
			{Sequence: sequence - 1},
			{Sequence: sequence + 100, Places: []uint32{2}},
			{},
		} {
			if open := h.places(nothing); open != 2 {
				t.Errorf("%v changes the open admissions to %d", nothing, open)
			}
		}
		h.voided(reads[2])
		if open := h.places(&event.Served{Sequence: sequence, Places: []uint32{2}}); open != 1 {
			t.Errorf("%d admissions are open after a read was voided, then served", open)
		}
		if used := h.usedBy(alice, plan.LiteGet).Used; used != 3 {
			t.Errorf("%d reads count of four with one void", used)
		}
		if len(h.fold.holds.byOffset) != 0 {
			t.Errorf("%d messages are kept by place without an open read", len(h.fold.holds.byOffset))
		}
		h.sound()
	}
}

// TestAReadThatATimeOutServedIsConfirmedByItsPlace: afterwards it can't be voided any more.
func TestAReadThatATimeOutServedIsConfirmedByItsPlace(t *testing.T) {
	for _, fromSnapshot := range []bool{false, true} {
		h := newHistory(t, plan.Published(10))
		h.account(alice, plan.Pro)
		a := h.admission(alice, plan.LiteGet)
		sequence := h.usage([]*event.Admission{a}, nil).Sequence
		h.now += HoldMillis
		h.tick()
		if fromSnapshot {
			h.fold = restored(t, h.fold)
		}
		h.places(&event.Served{Sequence: sequence})
		h.voided(a)
		if used := h.usedBy(alice, plan.LiteGet).Used; used != 1 {
			t.Errorf("%d reads count after one was confirmed, then voided", used)
		}
		h.now += MemoryMillis
		h.tick()
		if len(h.fold.holds.byOffset) != 0 {
			t.Errorf("%d messages are kept by place without a read", len(h.fold.holds.byOffset))
		}
	}
}

// TestAClockFromTheFirstAdmissionCounts as the same clock in full does.
func TestAClockFromTheFirstAdmissionCounts(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Pro)
	before := h.fold.time
	a := h.admission(alice, plan.LiteGet)
	id := event.NewRequestID()
	a.RequestId = id[:]
	h.now = before - 1_000 // the journal's clock is behind
	h.number["edge"]++
	h.append(Usage, &event.UsageBatch{
		Source: "edge", Number: h.number["edge"], Admissions: []*event.Admission{a}, SinceMs: before + 500 - id.UnixMilli(),
	})
	if h.fold.time != before+500 {
		t.Errorf("the fold's time is %d after it, want 500", h.fold.time-before)
	}
}
