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

// TestOneReaderHasTheLease: the one who had it, or who knew of the last one. A restart at any point changes nothing.
func TestOneReaderHasTheLease(t *testing.T) {
	s := fold.NewState(nil)
	for i, c := range []struct {
		name    string
		lease   *event.ReadLease
		granted bool
		holder  string // afterwards
	}{
		{"the first", &event.ReadLease{Instance: "a", Run: 1, Number: 1}, true, "a"},
		{"the same again", &event.ReadLease{Instance: "a", Run: 1, Number: 2}, true, "a"},
		{"one who knows of an earlier one", &event.ReadLease{Instance: "b", Run: 1, After: 1}, false, "a"},
		{"one who knows of the last one", &event.ReadLease{Instance: "b", Run: 1, After: 2}, true, "b"},
		{"the one who had it before", &event.ReadLease{Instance: "a", Run: 1, Number: 3, After: 2}, false, "b"},
		{"an end by another reader", &event.ReadLease{Instance: "a", Run: 1, End: true, After: 2}, false, "b"},
		{"an end by another run", &event.ReadLease{Instance: "b", Run: 2, End: true, After: 4}, false, "b"},
		{"a later run", &event.ReadLease{Instance: "b", Run: 2, After: 4}, true, "b"},
		{"the end", &event.ReadLease{Instance: "b", Run: 2, After: 8, End: true}, false, ""},
		{"anyone after that", &event.ReadLease{Instance: "c", Run: 1, After: 4}, true, "c"},
	} {
		s.Enter(fold.Message{Sequence: uint64(i + 1), Batch: &event.RequestBatch{Lease: c.lease}})
		if granted := s.Grant(c.lease); granted != c.granted || s.Lease().GetInstance() != c.holder {
			t.Errorf("%s: granted %v, %q has it; want %v and %q", c.name, granted, s.Lease().GetInstance(), c.granted, c.holder)
		}
		s = fold.NewState(s.Snapshot())
	}
}
