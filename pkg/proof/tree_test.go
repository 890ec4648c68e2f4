package proof_test

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"quire.dev/pkg/proof"
)

// hashOf computes a tree's root as docs/journal.md has it, from leaves in any order.
func hashOf(leaves []proof.Leaf) (hash [32]byte, sums proof.Sums) {
	if len(leaves) == 0 {
		return hash, sums
	}
	put := func(data []byte, sums proof.Sums) []byte {
		for _, n := range sums {
			data = binary.BigEndian.AppendUint64(data, n)
		}
		return data
	}
	if len(leaves) == 1 {
		l := leaves[0]
		return sha256.Sum256(append(put(append([]byte{0}, l.Key[:]...), l.Sums), l.Content[:]...)), l.Sums
	}
	for bit := range 256 {
		var sides [2][]proof.Leaf
		for _, l := range leaves {
			side := l.Key[bit/8] >> (7 - bit%8) & 1
			sides[side] = append(sides[side], l)
		}
		if len(sides[0]) == 0 || len(sides[1]) == 0 {
			continue
		}
		left, leftSums := hashOf(sides[0])
		right, rightSums := hashOf(sides[1])
		data := put(append([]byte{1, byte(bit >> 8), byte(bit)}, left[:]...), leftSums)
		data = put(append(data, right[:]...), rightSums)
		return sha256.Sum256(data), proof.Sums{leftSums[0] + rightSums[0], leftSums[1] + rightSums[1], leftSums[2] + rightSums[2]}
	}
	panic("two leaves with one key")
}

// TestTreesHaveTheRootOfTheDocument changes trees in steps and keeps all versions.
func TestTreesHaveTheRootOfTheDocument(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	drawn := func(account uint64) proof.Leaf {
		l := proof.Leaf{Key: proof.KeyOf(account), Sums: proof.Sums{random.Uint64N(9), random.Uint64N(1 << 40), random.Uint64N(99)}}
		binary.BigEndian.PutUint64(l.Content[:], random.Uint64())
		return l
	}
	var tree proof.Tree
	all := map[proof.Key]proof.Leaf{}
	var versions []proof.Tree
	var roots []proof.Root
	for range 40 {
		batch := map[proof.Key]proof.Leaf{}
		for range random.IntN(30) {
			l := drawn(random.Uint64N(200))
			batch[l.Key] = l
		}
		var list []proof.Leaf
		for key, l := range batch {
			all[key], list = l, append(list, l)
		}
		tree = tree.With(list)
		var leaves []proof.Leaf
		for _, l := range all {
			leaves = append(leaves, l)
		}
		want := proof.Root{}
		want.Hash, want.Sums = hashOf(leaves)
		if got := tree.Root(); got != want {
			t.Fatalf("%d leaves: root %x, want %x", len(all), got, want)
		}
		versions, roots = append(versions, tree), append(roots, want)
	}
	for i, tree := range versions {
		if tree.Root() != roots[i] {
			t.Fatalf("version %d has changed", i)
		}
	}
	if n := len(slices.Collect(tree.Leaves())); n != len(all) {
		t.Errorf("%d leaves, want %d", n, len(all))
	}
	for account := range uint64(250) { // some have no leaf
		key := proof.KeyOf(account)
		leaf, path := tree.Find(key)
		own, exists := all[key]
		if exists != (leaf.Key == key) || exists && *leaf != own {
			t.Fatalf("account %d: found %v, want %v", account, leaf, own)
		}
		if root, ok := proof.Climb(key, leaf, path); !ok || root != tree.Root() {
			t.Fatalf("account %d: its path leads to %x, %v", account, root, ok)
		}
		other := proof.KeyOf(account + 1000)
		if _, ok := proof.Climb(other, leaf, path); ok && len(path) > 0 && other[0]>>7 != leaf.Key[0]>>7 {
			t.Fatalf("account %d: its path is that of another key", account)
		}
	}
	if leaf, path := (proof.Tree{}).Find(proof.Key{}); leaf != nil || path != nil {
		t.Error("an empty tree has a leaf")
	}
}

// TestAPathIsOfOneKey changes each part of a path.
func TestAPathIsOfOneKey(t *testing.T) {
	var leaves []proof.Leaf
	for account := range uint64(50) {
		leaves = append(leaves, proof.Leaf{Key: proof.KeyOf(account), Sums: proof.Sums{account, 2, 3}})
	}
	tree := proof.Tree{}.With(leaves)
	key := proof.KeyOf(7)
	leaf, path := tree.Find(key)
	fits := func() bool {
		root, ok := proof.Climb(key, leaf, path)
		return ok && root == tree.Root()
	}
	changed := *leaf
	for i := range path {
		whole := slices.Clone(path)
		for _, change := range []func(){
			func() { path[i].Bit++ }, func() { path[i].Bit = -1 }, func() { path[i].Bit = 300 }, func() { path[i].Other.Hash[5]++ },
			func() { path[i].Other.Sums[1]++ }, func() { path = slices.Delete(path, i, i+1) },
		} {
			if change(); fits() {
				t.Errorf("step %d may be changed", i)
			}
			path = slices.Clone(whole)
		}
	}
	changed.Sums[0]--
	if leaf = &changed; fits() {
		t.Error("the leaf may be changed")
	}
}

func BenchmarkTree(b *testing.B) {
	const accounts, changed = 100_000, 10_000
	var leaves []proof.Leaf
	for account := range uint64(accounts) {
		leaves = append(leaves, proof.Leaf{Key: proof.KeyOf(account)})
	}
	tree := proof.Tree{}.With(leaves)
	b.Run("build", func(b *testing.B) {
		for range b.N {
			proof.Tree{}.With(slices.Clone(leaves))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*accounts), "ns/leaf")
	})
	b.Run("change", func(b *testing.B) {
		for range b.N {
			tree.With(slices.Clone(leaves[:changed]))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*changed), "ns/leaf")
	})
}
