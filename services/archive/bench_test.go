package archive

import (
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/tilelog"
)

// BenchmarkEntries adds messages of a number of admissions to a log on a disk.
func BenchmarkEntries(b *testing.B) {
	for name, admissions := range map[string]int{"1": 1, "500": 500} {
		b.Run(name, func(b *testing.B) {
			batch := &event.UsageBatch{Source: "edge", Number: 1}
			for range admissions {
				id := event.NewRequestID()
				batch.Admissions = append(batch.Admissions, &event.Admission{RequestId: id[:], Account: 1, QuotaKey: 2, KeyVersion: 1, KeyFingerprint: 7})
			}
			data, err := event.Encode(batch)
			if err != nil {
				b.Fatal(err)
			}
			store, err := disk.Open(b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			l, err := tilelog.Open(b.Context(), store, proof.LogPrefix, tlog.Tree{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(data)))
			now := time.Now()
			for b.Loop() {
				if err := l.Append(b.Context(), proof.Digest(0, 1, now, event.UsageSubject(0), data).Encode()); err != nil {
					b.Fatal(err)
				}
			}
			if _, err := l.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
