package segment_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"quire.dev/pkg/segment"
)

// TestWhatIsWrittenIsRead: for any messages, whatever the sizes of frames and of the range that is read.
func TestWhatIsWrittenIsRead(t *testing.T) {
	r := draw(t)
	for _, n := range []int{1, 2, 30, 700} {
		store := newStore(t)
		a := newArchive(t, store)
		a.Small(1+r.IntN(4000), 1<<20)
		all := drawn(r, 1, n)
		s := write(t, a, segment.Hash{}, all)
		got, err := replay(t, a, 1, 0)
		if err != nil || !reflect.DeepEqual(got, all) {
			t.Fatalf("%d messages: %d were read: %v", n, len(got), err)
		}
		from := 1 + r.Uint64N(uint64(n))
		to := from + r.Uint64N(uint64(n)-from+1)
		got, err = replay(t, a, from, to)
		if err != nil || !reflect.DeepEqual(got, all[from-1:to]) {
			t.Fatalf("%d to %d of %d messages: %d were read: %v", from, to, n, len(got), err)
		}
		summary, err := a.Describe(t.Context(), s)
		if err != nil || summary.Messages != uint64(n) || summary.LastChain != chainOf(all) || summary.Installation != installation {
			t.Fatalf("%+v: %v", summary, err)
		}
	}
}

func TestASegmentHasTheLargestAndTheEmptiestMessage(t *testing.T) {
	a := newArchive(t, newStore(t))
	large := make([]byte, 8<<20)
	src := rand.NewChaCha8([32]byte{})
	src.Read(large)
	all := []segment.Message{
		{Sequence: 1, Subject: "", Data: nil}, {Sequence: 2, TimeNanos: 5, Subject: "s", Data: large}, {Sequence: 3, TimeNanos: 4, Subject: "s"},
	}
	write(t, a, segment.Hash{}, all)
	got, err := replay(t, a, 1, 3)
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Fatalf("%d were read: %v", len(got), err)
	}
}

// TestTwoArchiversWriteTheSameBlob: name and bytes follow from the messages.
func TestTwoArchiversWriteTheSameBlob(t *testing.T) {
	all := drawn(draw(t), 1, 3000)
	var keys []string
	var blobs [][]byte
	for range 2 {
		store := newStore(t)
		a := newArchive(t, store)
		a.Small(20_000, 1<<20)
		keys = append(keys, write(t, a, segment.Hash{}, all).Key)
		blobs = append(blobs, content(t, store, keys[len(keys)-1]))
	}
	if keys[0] != keys[1] || !bytes.Equal(blobs[0], blobs[1]) {
		t.Fatalf("%s and %s", keys[0], keys[1])
	}
}

// TestAnyZstdDecoderReadsTheRecords: it skips the index and the trailer.
func TestAnyZstdDecoderReadsTheRecords(t *testing.T) {
	store := newStore(t)
	a := newArchive(t, store)
	a.Small(300, 1<<20)
	all := drawn(draw(t), 1, 50)
	s := write(t, a, segment.Hash{}, all)
	d, err := zstd.NewReader(bytes.NewReader(content(t, store, s.Key)))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var out bytes.Buffer
	if _, err := d.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, m := range all {
		want += 22 + len(m.Subject) + len(m.Data)
		if !bytes.Contains(out.Bytes(), m.Data) {
			t.Fatalf("message %d is not in the records", m.Sequence)
		}
	}
	if out.Len() != want {
		t.Fatalf("%d bytes of records, want %d", out.Len(), want)
	}
}

// TestAFullSegmentLeavesTheMessageToTheNextOne: each has at most its size, and together they have all messages.
func TestAFullSegmentLeavesTheMessageToTheNextOne(t *testing.T) {
	a := newArchive(t, newStore(t))
	a.Small(1000, 5000)
	all := drawn(draw(t), 1, 900)
	segments := writeAll(t, a, all)
	if len(segments) < 3 {
		t.Fatalf("%d segments", len(segments))
	}
	got, err := replay(t, a, 1, 0)
	if err != nil || !reflect.DeepEqual(got, all) {
		t.Fatalf("%d of %d were read: %v", len(got), len(all), err)
	}
}

// writeAll writes as many segments as the messages need.
func writeAll(t testing.TB, a *segment.Archive, all []segment.Message) (out []segment.Segment) {
	t.Helper()
	var before segment.Hash
	for start := 0; start < len(all); {
		w, err := a.Create(stream, 0, before)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for ; start < len(all); start++ {
			if err = w.Add(all[start]); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, segment.ErrFull) {
			t.Fatal(err)
		}
		before = w.Chain()
		s, err := w.Put(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

func TestAWriterRefusesWhatNoSegmentCanHave(t *testing.T) {
	a := newArchive(t, newStore(t))
	w, err := a.Create(stream, 0, segment.Hash{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Put(t.Context()); !errors.Is(err, segment.ErrInvalid) {
		t.Errorf("without messages: %v", err)
	}
	good := segment.Message{Sequence: 7}
	if err := w.Add(good); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []segment.Message{
		{Sequence: 7},
		{Sequence: 6},
		{Sequence: 8, TimeNanos: -1},
		{Sequence: 8, Data: make([]byte, 8<<20+1)},
		{Sequence: 8, Subject: string(make([]byte, 1<<16))},
	} {
		if err := w.Add(bad); !errors.Is(err, segment.ErrInvalid) {
			t.Errorf("message %d: %v", bad.Sequence, err)
		}
	}
	requireGap(t, w.Add(segment.Message{Sequence: 10}), 8, 9)
	if err := w.Add(segment.Message{Sequence: 8}); err != nil {
		t.Errorf("after refused ones: %v", err)
	}
	if _, err := w.Put(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.Add(segment.Message{Sequence: 9}); !errors.Is(err, segment.ErrInvalid) {
		t.Errorf("after Put: %v", err)
	}
	for _, name := range []string{"", "a/b", "..", string(bytes.Repeat([]byte("a"), 101))} {
		if _, err := a.Create(name, 0, segment.Hash{}); !errors.Is(err, segment.ErrInvalid) {
			t.Errorf("stream %q: %v", name, err)
		}
	}
	first, err := a.Create(stream, 0, segment.Hash{1})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if err := first.Add(segment.Message{Sequence: 1}); !errors.Is(err, segment.ErrInvalid) {
		t.Errorf("message 1 after a chain: %v", err)
	}
}

// TestManyReadAtOnce from one archive, whose decoders and trailers they share.
func TestManyReadAtOnce(t *testing.T) {
	a := newArchive(t, newStore(t))
	a.Small(2000, 8000)
	all := drawn(draw(t), 1, 800)
	writeAll(t, a, all)
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			if i%2 == 0 {
				got, err := replay(t, a, 1, 0)
				if err != nil || !reflect.DeepEqual(got, all) {
					t.Errorf("%d were read: %v", len(got), err)
				}
				return
			}
			n := 0
			for _, err := range a.Messages(t.Context(), a.Find(t.Context(), stream, segment.Query{})) {
				if n++; err != nil {
					t.Error(err)
				}
			}
			if n != len(all) {
				t.Errorf("%d were found", n)
			}
		})
	}
	wait.Wait()
}
