package fold_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"quire.dev/pkg/document/fold"
	"quire.dev/pkg/event"
)

func TestFoldTimeNeverGoesBackNorFarAhead(t *testing.T) {
	s := fold.NewState(nil)
	for i, c := range []struct{ stamp, stored, offset, want int64 }{
		{1000, 1100, 0, 1000},
		{900, 1200, 0, 1000},                          // a slow clock
		{50_000, 1300, 0, 1300 + fold.MaxAheadMillis}, // a fast one
		{2000, 1400, 0, 1300 + fold.MaxAheadMillis},   // after it
		{90_000, 10_000, 80_000, 90_000},              // an offset counts
		{900_000, 10_000, 80_000, 10_000 + 80_000 + fold.MaxAheadMillis},
	} {
		b := &event.RequestBatch{StampMs: c.stamp, OffsetMs: c.offset}
		if got, _ := s.Enter(fold.Message{Sequence: uint64(i + 1), StoredMS: c.stored, Batch: b}); got != c.want {
			t.Errorf("message %d: time %d, want %d", i, got, c.want)
		}
	}
}

func TestBatchesAreFoldedOnce(t *testing.T) {
	s := fold.NewState(nil)
	const idle = fold.SourceIdleMillis
	for i, c := range []struct {
		source string
		number uint64
		now    int64
		repeat bool
	}{
		{"a", 1, 100, false},
		{"b", 1, 100, false},
		{"a", 1, 200, true},
		{"a", 3, 300, false}, // numbers may skip
		{"a", 2, 300, true},
		{"", 0, 300, false}, // a sweeper's
		{"", 0, 300, false},
		{"a", 3, 300 + idle, true},
		{"a", 3, 301 + idle, false}, // forgotten
	} {
		b := &event.RequestBatch{Source: c.source, Number: c.number, StampMs: c.now}
		if _, repeat := s.Enter(fold.Message{Sequence: uint64(i + 1), StoredMS: c.now, Batch: b}); repeat != c.repeat {
			t.Errorf("message %d: repeat %v, want %v", i, repeat, c.repeat)
		}
		kept := s.Snapshot() // a restart at any point changes nothing
		data, err := event.Encode(kept)
		if err != nil {
			t.Fatal(err)
		}
		read := &event.DomainState{}
		if err := event.Decode(data, read); err != nil {
			t.Fatal(err)
		}
		s = fold.NewState(read)
		if !proto.Equal(s.Snapshot(), kept) {
			t.Errorf("message %d: kept %v, read %v", i, kept, s.Snapshot())
		}
	}
	if kept := s.Snapshot(); len(kept.Sources) != 1 || kept.Sources[0].Source != "a" || kept.Sequence != 9 {
		t.Errorf("kept %v", kept)
	}
}
