package bus

import (
	"testing"
	"time"

	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
)

// TestTheTimeOfARequestIsMeasuredInParts: what billing and a document service take is in the parts, and the parts are no more than the
// whole.
func TestTheTimeOfARequestIsMeasuredInParts(t *testing.T) {
	w := newWorld(t, 1)
	f := newFakeBilling(t, w.nc, 1)
	newFakeDomain(t, w.nc, event.Paste, 1)
	b := w.bus(t, func(c *Config) { c.ResendAfter = time.Minute })
	var timing Timing
	begun := time.Now()
	f.mu.Lock() // billing does not answer
	p := b.StartAdmit(admission(1), &timing)
	waiting := time.Now()
	eventually.True(t, "the batch is stored", func() bool { return p.item.stored.Load() != 0 })
	stored := time.Now()
	f.mu.Unlock()
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := time.Since(begun)
	if timing.Admit.Sync <= 0 || timing.Admit.Queue < 0 || timing.Admit.Total() > whole || timing.Admit.Total() < stored.Sub(waiting) {
		t.Errorf("%+v of %v, stored after %v", timing.Admit, whole, stored.Sub(waiting))
	}
	begun = time.Now()
	written := deletion(event.NewItemID())
	written.Timing = &timing
	if _, err := b.Write(t.Context(), event.Paste, written); err != nil {
		t.Fatal(err)
	}
	if total := timing.Write.Total(); total <= 0 || total > time.Since(begun) {
		t.Errorf("%+v of %v", timing.Write, time.Since(begun))
	}
}

// TestAnItemThatNeverLeftWaitedForItsBatch: so the wait says where the time went of a request that failed too.
func TestAnItemThatNeverLeftWaitedForItsBatch(t *testing.T) {
	w := newWorld(t, 1)
	b := w.bus(t, func(c *Config) { c.MaxWaiting, c.AdmitTimeout = 1, 50*time.Millisecond })
	b.StartAdmit(admission(1), nil) // nobody folds
	var timing Timing
	if _, err := b.StartAdmit(admission(2), &timing).Wait(t.Context()); err == nil {
		t.Fatal("the queue took more than its bound")
	}
	if timing.Admit.Sync != 0 || timing.Admit.Fold != 0 || timing.Admit.Queue > time.Minute {
		t.Errorf("%+v", timing.Admit)
	}
}

// TestTheReportHasTheTimeOfSlowRequestsAndIDsOfClients, on both sides of the bound.
func TestTheReportHasTheTimeOfSlowRequestsAndIDsOfClients(t *testing.T) {
	b := newWorld(t, 1).bus(t, nil)
	timing := Timing{Admit: Wait{Queue: 1e6, Sync: 2e6, Fold: 3e6}, Write: Wait{Queue: 4e6, Sync: 5e6, Fold: 6e6}, Read: 7e6, Blob: 9e6}
	m := b.encodeReport([]Report{
		{Took: slowReported - 1, Timing: timing},
		{Took: slowReported, Timing: timing, Body: 8e6, Client: []byte("order-4711")},
	})
	want := &event.RequestTiming{
		Index: 1, BodyMs: 8, AdmitQueueMs: 1, AdmitSyncMs: 2, AdmitFoldMs: 3, WriteQueueMs: 4, WriteSyncMs: 5, WriteFoldMs: 6, ReadMs: 7, BlobMs: 9,
	}
	if len(m.Timings) != 1 || m.Timings[0].String() != want.String() {
		t.Errorf("%v", m.Timings)
	}
	if len(m.Clients) != 2 || m.Words[m.Clients[0]] != "" || m.Words[m.Clients[1]] != "order-4711" {
		t.Errorf("%v of %v", m.Clients, m.Words)
	}
	if m := b.encodeReport([]Report{{}}); len(m.Clients) != 0 {
		t.Errorf("a report without ids of clients has the column %v", m.Clients)
	}
}
