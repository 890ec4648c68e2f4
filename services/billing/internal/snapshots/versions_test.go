package snapshots

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

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
		model, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "v.db"), Collections: Collections()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = model.Close() })
		s := New(blobs, model, "BILLING_0", slog.New(slog.DiscardHandler))
		image := imageOf(t, 5)
		secret, err := s.keys.get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%s%020d-%d-%x", s.prefix, image.Sequence, version, image.Hash())
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
