package document

import (
	"fmt"
	"testing"

	"quire.dev/pkg/event"
)

// BenchmarkMemory looks documents up that are in the cache, as a read does, from as many goroutines as there are cores.
func BenchmarkMemory(b *testing.B) {
	const documents = 10_000
	cache, err := newCache(64 << 20)
	if err != nil {
		b.Fatal(err)
	}
	m := newMemory(1, cache)
	ids := make([]string, documents)
	for n := range ids {
		ids[n] = fmt.Sprintf("id%010d", n)
		m.fill(ids[n], newEntry(&event.Document{Id: ids[n], Content: &event.Content{Inline: make([]byte, 1024)}}), 0)
	}
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for n := 0; pb.Next(); n++ {
			if e, _ := m.get(ids[n*7919%documents]); e == nil {
				b.Error("a cached document is missing")
				return
			}
		}
	})
}
