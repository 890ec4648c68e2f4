package archive

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"quire.dev/pkg/archived"
	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
	"quire.dev/pkg/installation"
	"quire.dev/pkg/proof"
	"quire.dev/pkg/segment"
	"quire.dev/pkg/tilelog"
)

// newArchive returns a stack whose journals have several segments each, with a loss that was accepted between them.
func newArchive(t *testing.T, random *rand.Rand) *stack {
	t.Helper()
	s, folder := newStack(t), t.TempDir()
	s.inFolder(folder)
	fill := func() {
		for p := range partitions {
			for range 2 + random.IntN(40) {
				s.publish(p)
			}
		}
		s.must(s.service(s.blobs))
	}
	fill()
	copied := s.copyJournals(folder)
	fill()
	s.inFolder(copied)
	s.accept()
	fill()
	fill()
	put(t, s.blobs, installation.BlobKey, []byte("test"))
	return s
}

func put(t *testing.T, store blob.Store, key string, data []byte) {
	t.Helper()
	if _, err := store.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, store blob.Store, key string) []byte {
	t.Helper()
	data, err := blob.Read(t.Context(), store, key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// copyBlobs copies a store, to be damaged.
func copyBlobs(t *testing.T, from blob.Store) blob.Store {
	t.Helper()
	to, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	err = from.Sweep(t.Context(), "", time.Now().Add(time.Hour), func(info blob.Info) error {
		r, _, err := from.Get(t.Context(), info.Key, 0, -1)
		if err != nil {
			return err
		}
		_, err = to.Put(t.Context(), info.Key, r, info.Size)
		return errors.Join(err, r.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func checkArchived(ctx context.Context, blobs blob.Store, secret string) (*Archived, []Ending, error) {
	a, err := OpenArchived(ctx, blobs, secret, 1)
	if err != nil {
		return nil, nil, err
	}
	ends, err := a.Check(ctx, func(int64, int64) {})
	return a, ends, err
}

func TestAnArchiveIsReadAsItsJournals(t *testing.T) {
	s := newArchive(t, seeded(t))
	for _, secret := range []string{testSecret, ""} {
		a, ends, err := checkArchived(t.Context(), s.blobs, secret)
		if err != nil {
			t.Fatal(err)
		}
		if a.Installation != "test" || a.Partitions != partitions || a.Tree == nil || *a.Tree != s.checkpoint() {
			t.Errorf("an archive of %s with %d partitions and the log %v", a.Installation, a.Partitions, a.Tree)
		}
		service := s.service(s.blobs)
		for p, last := range s.ends() {
			if end := ends[p]; end.Archived != last || end.Logged != last || end.Unlogged != 0 || !end.Lost.IsZero() {
				t.Errorf("partition %d ends at %d: %+v", p, last, end)
			}
			next, stop := a.Restored(t.Context(), p)
			defer stop()
			for sequence := uint64(1); sequence <= last+1; sequence++ {
				got, more, err := next()
				if err != nil || more != (sequence <= last) {
					t.Fatalf("message %d of %d: %v, %v", sequence, last, more, err)
				}
				if !more {
					break
				}
				want, err := service.journals[p].Get(t.Context(), sequence)
				if err != nil || got.Sequence != sequence || !got.Time.Equal(want.Time) || got.Subject != want.Subject || !bytes.Equal(got.Data, want.Data) {
					t.Fatalf("message %d differs: %v", sequence, err)
				}
			}
		}
	}
}

// segmentsOf are the segments of a partition, in order.
func segmentsOf(t *testing.T, blobs blob.Store, partition int) []segment.Segment {
	t.Helper()
	archive, err := archived.Segments(blobs, "test", partitions, "")
	if err != nil {
		t.Fatal(err)
	}
	listing, err := archive.List(t.Context(), event.Billing.Stream(partition))
	if err != nil || len(listing.Segments) < 3 {
		t.Fatalf("%d segments: %v", len(listing.Segments), err)
	}
	return listing.Segments
}

// forge writes a segment of an installation with the messages of another one, after change. It follows a chain, nil for the same. It
// returns the segment and the chain after it.
func forge(t *testing.T, blobs blob.Store, of segment.Segment, id string, before *segment.Hash, change func(*segment.Message)) (segment.Segment, segment.Hash) {
	t.Helper()
	from, err := archived.Segments(blobs, "test", partitions, "")
	if err != nil {
		t.Fatal(err)
	}
	to, err := archived.Segments(blobs, id, partitions, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	summary, err := from.Describe(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	if before == nil {
		before = &summary.FirstChain
	}
	w, err := to.Create(of.Stream, summary.Partition, *before)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = from.ReplaySegment(t.Context(), of, of.First, func(m segment.Message) error {
		change(&m)
		return w.Add(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	chain := w.Chain()
	made, err := w.Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return made, chain
}

func TestADamagedArchiveIsRefusedWithItsPlace(t *testing.T) {
	random := seeded(t)
	s := newArchive(t, random)
	partition := random.IntN(partitions)
	list := segmentsOf(t, s.blobs, partition)
	middle, last := list[1], list[len(list)-1]
	for name, c := range map[string]struct {
		damage func(blob.Store)
		want   error
		says   string
	}{
		"a byte": {func(b blob.Store) {
			data := get(t, b, middle.Key)
			data[random.IntN(len(data))] ^= 1 << random.IntN(8)
			put(t, b, middle.Key, data)
		}, segment.ErrDamaged, middle.Key},
		"omitted": {func(b blob.Store) { remove(t, b, middle.Key) }, segment.ErrGap, (&segment.GapError{Stream: middle.Stream, First: middle.First, Last: middle.Last}).Error()},
		"of another installation": {func(b blob.Store) {
			forge(t, b, middle, "another", nil, func(*segment.Message) {})
			remove(t, b, middle.Key)
		}, segment.ErrForeign, "another"},
		"of another journal": {func(b blob.Store) {
			other := segmentsOf(t, b, (partition+1)%partitions)[1]
			key := strings.Replace(middle.Key, middle.Key[len(middle.Key)-68:], other.Key[len(other.Key)-68:], 1)
			put(t, b, key, get(t, b, other.Key))
			remove(t, b, middle.Key)
		}, segment.ErrDamaged, middle.Stream},
		"rewritten": {func(b blob.Store) {
			forge(t, b, last, "test", nil, func(m *segment.Message) {
				if m.Sequence == last.Last {
					m.TimeNanos++
				}
			})
			remove(t, b, last.Key)
		}, ErrUnlogged, "is another one"},
		"another log": {func(b blob.Store) { put(t, b, proof.LogCheckpoint, []byte("quire\n1\n\n")) }, tilelog.ErrCheckpoint, "quire/test/"},
		"an entry of the log": {func(b blob.Store) {
			for _, key := range bundles(t, b) {
				data := get(t, b, key)
				data[2+11]++ // time of the first entry
				put(t, b, key, data)
			}
		}, tilelog.ErrDamaged, "entry 0 is another one"},
		"no archive": {func(b blob.Store) { remove(t, b, installation.BlobKey) }, ErrNoArchive, installation.BlobKey},
	} {
		t.Run(name, func(t *testing.T) {
			blobs := copyBlobs(t, s.blobs)
			c.damage(blobs)
			if _, _, err := checkArchived(t.Context(), blobs, ""); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.says)
			}
		})
	}
	if _, _, err := checkArchived(t.Context(), s.blobs, "another secret of some log's key!"); !errors.Is(err, tilelog.ErrCheckpoint) {
		t.Errorf("with another key: %v", err)
	}
}

func remove(t *testing.T, blobs blob.Store, key string) {
	t.Helper()
	if err := blobs.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

// bundles are the first bundle of entries, in each width.
func bundles(t *testing.T, blobs blob.Store) (keys []string) {
	t.Helper()
	err := blobs.Sweep(t.Context(), proof.LogPrefix+"tile/", time.Now().Add(time.Hour), func(info blob.Info) error {
		if strings.HasPrefix(info.Key, proof.LogPrefix+"tile/entries/000") {
			keys = append(keys, info.Key)
		}
		return nil
	})
	if err != nil || len(keys) == 0 {
		t.Fatalf("no bundle: %v", err)
	}
	return keys
}

// TestWhatTheArchiveLacksIsCounted: the last segments are missing.
func TestWhatTheArchiveLacksIsCounted(t *testing.T) {
	s := newArchive(t, seeded(t))
	list := segmentsOf(t, s.blobs, 0)
	last := list[len(list)-1]
	first, err := s.service(s.blobs).journals[0].Get(t.Context(), last.First)
	if err != nil {
		t.Fatal(err)
	}
	blobs := copyBlobs(t, s.blobs)
	remove(t, blobs, last.Key)
	_, ends, err := checkArchived(t.Context(), blobs, testSecret)
	if err != nil {
		t.Fatal(err)
	}
	if end := ends[0]; end.Archived != last.First-1 || end.Logged != last.Last || !end.Lost.Equal(first.Time) {
		t.Errorf("%+v, want messages up to %d of %d, lost since %v", end, last.First-1, last.Last, first.Time)
	}
	for _, prefix := range []string{proof.LogPrefix, private} {
		err := blobs.Sweep(t.Context(), prefix, time.Now().Add(time.Hour), func(info blob.Info) error { return blobs.Delete(t.Context(), info.Key) })
		if err != nil {
			t.Fatal(err)
		}
	}
	a, ends, err := checkArchived(t.Context(), blobs, testSecret)
	if err != nil || a.Tree != nil || a.Partitions != partitions || ends[0].Archived != last.First-1 || ends[0].Logged != 0 || ends[0].Unlogged != 0 {
		t.Errorf("without a log: %+v, %+v, %v", a, ends, err)
	}
}
