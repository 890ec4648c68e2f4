package bus

import (
	"sync"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/event"
	"quire.dev/pkg/journal"
)

// BenchmarkAdmit has 256 clients that each ask, wait, and settle, over a journal with fsync.
func BenchmarkAdmit(b *testing.B) {
	w := newWorld(b, 1)
	newFakeBilling(b, w.nc, 1)
	bus := w.bus(b, nil)
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range 256 {
		account := event.NewAccountID()
		group.Go(func() {
			for left.Add(-1) >= 0 {
				a := admission(account)
				v, err := bus.StartAdmit(a, nil).Wait(b.Context())
				if err != nil {
					b.Errorf("admit: %v", err)
					return
				}
				bus.Served(a, v)
			}
		})
	}
	group.Wait()
	b.StopTimer()
	batches, err := journal.Open(w.nc, event.Billing.Stream(0)).LastSequence(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "admissions/s")
	b.ReportMetric(float64(2*b.N)/float64(batches), "items/batch")
}
