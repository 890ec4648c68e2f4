package snapshots

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/views/sqlite"
	"quire.dev/services/billing/internal/account"
)

// TestAStartTakesSnapshotsOfThisVersionAndOfThePreviousOne, and an explanation also of every earlier version. Snapshots of
// later versions are never used.
func TestAStartTakesSnapshotsOfThisVersionAndOfThePreviousOne(t *testing.T) {
	for version, used := range map[int]struct{ start, explanation bool }{
		account.CodeVersion + 1: {false, false},
		account.CodeVersion:     {true, true},
		account.CodeVersion - 1: {true, true},
		account.CodeVersion - 2: {false, true},
	} {
		if version < 0 {
			continue // there was no such version yet, and a name has no place for its sign
		}
		blobs, err := disk.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = blobs.Close() })
		s := storeIn(t, blobs)
		image := imageOf(t, 5)
		secret, err := s.keys.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%s%020d-%d-%x-%d", s.prefix, image.Sequence, version, image.Hash(), image.Entries)
		data := secret.sign(key, image.Encode())
		if _, err := blobs.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
			t.Fatal(err)
		}
		fold, _, err := s.Newest(t.Context(), image.Sequence)
		if err != nil || (fold.Sequence() == image.Sequence) != used.start {
			t.Errorf("version %d: a start goes on from %d, %v", version, fold.Sequence(), err)
		}
		part, err := s.NewestPart(t.Context(), image.Sequence, func(uint64) bool { return true })
		if err != nil || (part.Sequence() == image.Sequence) != used.explanation {
			t.Errorf("version %d: an explanation goes on from %d, %v", version, part.Sequence(), err)
		}
	}
}

// TestANameSaysTheEntries of the fold, and names of other forms are no snapshots.
func TestANameSaysTheEntries(t *testing.T) {
	blobs, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = blobs.Close() })
	s := storeIn(t, blobs)
	image := imageOf(t, 5, 6, 7) // by three commands
	key, _, err := s.Write(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Key != key || list[0].Entries != 3 || list[0].Sequence != image.Sequence || list[0].Hash != image.Hash() {
		t.Errorf("%v, %v", list, err)
	}
	if fold, got, err := s.Newest(t.Context(), image.Sequence); err != nil || got != key || fold.Entries() != 3 {
		t.Errorf("a start goes on from %q: %v", got, err)
	}
	for name, entries := range map[string]int{strings.TrimSuffix(key, "-3"): -1, key: 3, key + "-3": -1, key + "x": -1, strings.TrimSuffix(key, "3"): -1} {
		got, ok := s.parse(blob.Info{Key: name})
		if ok != (entries >= 0) || ok && got.Entries != uint64(entries) {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
}

// storeIn is a store with a read model of its own.
func storeIn(t *testing.T, blobs blob.Store) *Store {
	t.Helper()
	model, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "v.db"), Collections: Collections()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	return New(blobs, model, "BILLING_0", slog.New(slog.DiscardHandler))
}
