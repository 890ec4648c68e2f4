package account

import (
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// TestNothingOfAMessageOutlivesItsFold overwrites each message once it is folded, and the memory that it was decoded into.
func TestNothingOfAMessageOutlivesItsFold(t *testing.T) {
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Pro)
	for round := range 4 {
		write, read, void, anonymous := h.admission(alice, plan.LiteCreate), h.admission(alice, plan.LiteGet), h.admission(alice, plan.LiteGet), h.admission(net1, plan.LiteCreate)
		write.Write, write.IdempotencyId = true, h.requestID()
		read.ReadId, read.ReadHash = h.requestID(), 7
		anonymous.Anonymous, anonymous.Write = true, true
		sequence := h.usage([]*event.Admission{write, read, void, anonymous}, nil).Sequence
		h.usage(nil, []*event.Settlement{settlementOf(void, event.Result_VOID)})
		h.places(&event.Served{Sequence: sequence, Places: []uint32{1}})
		settled := settlementOf(write, event.Result_SERVED)
		settled.Sequence, settled.StoredMs = uint64(round+1), h.now
		h.append(SettledLite, &event.UsageBatch{Source: event.Lite.Stream(0), StampMs: h.now, Settlements: []*event.Settlement{settled}})
	}
	f := New()
	for _, m := range h.messages {
		data := append([]byte(nil), m.Data...)
		m.Data = data
		if _, err := f.Apply(m); err != nil {
			t.Fatal(err)
		}
		overwrite(data)
		for _, a := range f.scratch.batch.Admissions {
			overwrite(a.RequestId)
			overwrite(a.IdempotencyId)
			overwrite(a.ReadId)
		}
		for _, s := range f.scratch.batch.Settlements {
			overwrite(s.RequestId)
		}
	}
	if got, want := stateHash(t, f), stateHash(t, h.fold); got != want {
		t.Errorf("the state is %x, and %x where nothing was overwritten", got, want)
	}
}

func overwrite(b []byte) {
	for i := range b {
		b[i] = 0xff
	}
}

// TestABatchIsFoldedWithoutAnAllocationForEachItem: 64 admissions, and the settlements of the previous ones.
func TestABatchIsFoldedWithoutAnAllocationForEachItem(t *testing.T) {
	const size, warm, counted = 64, 10, 20
	h := newHistory(t, plan.Published(10))
	h.account(alice, plan.Admin)
	first := len(h.messages)
	var before []*event.Settlement
	for range warm + counted + 1 {
		var admissions []*event.Admission
		for range size {
			admissions = append(admissions, h.admission(alice, plan.LiteGet))
		}
		h.usage(admissions, before)
		before = nil
		for _, a := range admissions {
			before = append(before, settlementOf(a, event.Result_SERVED))
		}
	}
	f := New()
	next := 0
	apply := func() {
		if _, err := f.Apply(h.messages[next]); err != nil {
			t.Fatal(err)
		}
		next++
	}
	for range first + warm {
		apply()
	}
	if each := testing.AllocsPerRun(counted, apply); each > size/2 {
		t.Errorf("a batch takes %v allocations", each)
	} else {
		t.Logf("%v allocations", each)
	}
}
