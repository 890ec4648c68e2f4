package rpc_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"quire.dev/pkg/journal/journaltest"
	"quire.dev/pkg/rpc"
)

// BenchmarkBatcher has senders that each wait for an answer before the next request.
func BenchmarkBatcher(b *testing.B) {
	for _, senders := range []int{1, 128, 512} {
		b.Run(fmt.Sprint(senders), func(b *testing.B) {
			s := journaltest.Start(b)
			var batches atomic.Int64
			serve(b, s.Conn(b), func(r *rpc.Request, numbers []uint64) {
				batches.Add(1)
				_ = r.Reply(doubles(numbers, 0, len(numbers)))
			})
			bt := batcher(b, s.Conn(b), config())
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range senders {
				wg.Go(func() {
					for n := i; n < b.N; n += senders {
						if _, err := bt.Start(uint64(n)).Wait(b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
			b.ReportMetric(float64(b.N)/float64(batches.Load()), "requests/batch")
		})
	}
}

func BenchmarkCall(b *testing.B) {
	s := journaltest.Start(b)
	server := s.Conn(b)
	if _, err := rpc.Serve(server, "billing.0.account", "billing", 1, upper); err != nil {
		b.Fatal(err)
	}
	if err := server.Flush(); err != nil {
		b.Fatal(err)
	}
	nc := s.Conn(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rpc.Call(b.Context(), nc, "billing.0.account", []byte("a")); err != nil {
			b.Fatal(err)
		}
	}
}
