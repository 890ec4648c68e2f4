package account

import (
	"runtime"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/plan"
)

// BenchmarkApply folds batches like a busy edge's: 256 admissions and the settlements of the previous batch, over 10,000
// accounts.
func BenchmarkApply(b *testing.B) {
	const accounts, size, batches = 10_000, 256, 512
	h := newHistory(b, plan.Published(10))
	for i := range accounts {
		h.account(uint64(i+1), plan.Admin)
	}
	var before []*event.Settlement
	var messages [][]byte
	for n := range batches {
		batch := &event.UsageBatch{Source: "bench", Number: uint64(n + 1), StampMs: h.now, Settlements: before}
		before = nil
		for i := range size {
			a := h.admission(uint64((n*size+i*7919)%accounts+1), plan.PastesGet)
			batch.Admissions = append(batch.Admissions, a)
			before = append(before, settlementOf(a, event.Result_SERVED))
		}
		data, err := event.Encode(batch)
		if err != nil {
			b.Fatal(err)
		}
		messages = append(messages, data)
	}
	base := h.fold
	b.ReportAllocs()
	b.ResetTimer()
	fold, at := base, len(messages)
	for range b.N {
		if at == len(messages) {
			b.StopTimer()
			fold, at = restored(b, base), 0
			b.StartTimer()
		}
		if _, err := fold.Apply(Message{Sequence: fold.Sequence() + 1, TimeNanos: h.now * nanosPerMilli, Kind: Usage, Data: messages[at]}); err != nil {
			b.Fatal(err)
		}
		at++
	}
	b.ReportMetric(float64(b.N)*size/b.Elapsed().Seconds(), "admissions/s")
}

// TestAnIdleAccountIsSmall: an account with nothing but its key takes less than 1 KB, including its state for the next
// snapshot.
func TestAnIdleAccountIsSmall(t *testing.T) {
	const accounts = 20_000
	h := newHistory(t, plan.Published(10))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for n := range uint64(accounts) {
		h.account(n+1, plan.Pro)
	}
	stateHash(t, h.fold)
	h.messages = nil
	each := (heap() - before) / accounts
	runtime.KeepAlive(h)
	if each >= 1024 {
		t.Errorf("an account takes %d bytes", each)
	}
	t.Logf("%d bytes", each)
}
