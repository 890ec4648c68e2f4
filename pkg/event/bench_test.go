package event_test

import (
	"encoding/binary"
	"testing"

	"quire.dev/pkg/event"
)

// usageBatch is a batch of a busy edge: so many admissions, and as many settlements of those before.
func usageBatch(size int) *event.UsageBatch {
	batch := &event.UsageBatch{Source: "edge-1234567890", Number: 7, StampMs: 1_800_000_000_000}
	for n := range size {
		id := binary.BigEndian.AppendUint64([]byte("edge-123"), uint64(n))
		batch.Admissions = append(batch.Admissions, &event.Admission{
			RequestId: id, Account: uint64(n)<<32 | 1, QuotaKey: 2, KeyVersion: 1, KeyFingerprint: uint64(n) * 0x9e3779b97f4a7c15,
		})
		batch.Settlements = append(batch.Settlements, &event.Settlement{
			RequestId: id, Account: uint64(n)<<32 | 1, QuotaKey: 2, Result: event.Result_SERVED,
		})
	}
	return batch
}

// BenchmarkBatch encodes a batch of 256 admissions and settlements, and decodes it.
func BenchmarkBatch(b *testing.B) {
	batch := usageBatch(256)
	data, err := event.Encode(batch)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if _, err := event.Encode(batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(data)))
		for b.Loop() {
			if err := event.Decode(data, new(event.UsageBatch)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
