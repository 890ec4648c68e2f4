package seal_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/proof"
	"quire.dev/services/billing/internal/seal"
)

// TestAStoredTreeHasThePathsOfTheTree of each key, of accounts with and without a leaf.
func TestAStoredTreeHasThePathsOfTheTree(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, count := range []int{0, 1, 2, 256, 257, 3000} {
		var leaves []proof.Leaf
		for account := range uint64(count) {
			l := proof.Leaf{Key: proof.KeyOf(account), Sums: proof.Sums{random.Uint64N(100), account, 1}}
			binary.BigEndian.PutUint64(l.Content[:], random.Uint64())
			leaves = append(leaves, l)
		}
		tree := proof.Tree{}.With(leaves)
		if err := seal.Write(t.Context(), store, "tree", tree); err != nil {
			t.Fatal(err)
		}
		for range 300 {
			key := proof.KeyOf(random.Uint64N(uint64(count) + 100))
			want, wantPath := tree.Find(key)
			leaf, path, err := seal.Find(t.Context(), store, "tree", key)
			if err != nil || !reflect.DeepEqual(leaf, want) || !reflect.DeepEqual(path, wantPath) {
				t.Fatalf("%d leaves: found %v with %d steps, %v; want %v with %d", count, leaf, len(path), err, want, len(wantPath))
			}
		}
	}
	if _, _, err := seal.Find(t.Context(), store, "none", proof.Key{}); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("without the blob: %v", err)
	}
	if _, err := store.Put(t.Context(), "cut", strings.NewReader("\x02ab"), 3); err != nil {
		t.Fatal(err)
	}
	if _, _, err := seal.Find(t.Context(), store, "cut", proof.Key{}); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("of a cut blob: %v", err)
	}
}
