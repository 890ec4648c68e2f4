package tilelog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/tilelog"
)

const prefix = "log/"

func open(t *testing.T) blob.Store {
	t.Helper()
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// reference is the tree as golang.org/x/mod computes it.
type reference struct{ hashes []tlog.Hash }

func (r *reference) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	list := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		list[i] = r.hashes[index]
	}
	return list, nil
}

func (r *reference) add(t *testing.T, n int64, entry []byte) {
	t.Helper()
	hashes, err := tlog.StoredHashes(n, entry, r)
	if err != nil {
		t.Fatal(err)
	}
	r.hashes = append(r.hashes, hashes...)
}

func (r *reference) root(t *testing.T, n int64) tlog.Hash {
	t.Helper()
	hash, err := tlog.TreeHash(n, r)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func entryOf(n int64) []byte { return fmt.Appendf(nil, "entry %d", n) }

// grow appends entries up to a size, and syncs.
func grow(t *testing.T, l *tilelog.Log, size int64) tlog.Tree {
	t.Helper()
	for n := l.Tree().N; n < size; n++ {
		if err := l.Append(t.Context(), entryOf(n)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := l.Sync(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestLogsAreThoseOfTheReference(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	store, want := open(t), &reference{}
	l, err := tilelog.Open(t.Context(), store, prefix, tlog.Tree{})
	if err != nil {
		t.Fatal(err)
	}
	var trees []tlog.Tree
	for size := int64(0); size < 70_000; { // three levels
		for range 1 + random.IntN(2) {
			for range random.IntN(1 << random.IntN(15)) {
				want.add(t, size, entryOf(size))
				size++
			}
		}
		tree := grow(t, l, size)
		if tree.N != size || size > 0 && tree.Hash != want.root(t, size) {
			t.Fatalf("size %d: tree %v is not the reference's", size, tree)
		}
		trees = append(trees, tree)
		if random.IntN(3) == 0 { // a restart
			if l, err = tilelog.Open(t.Context(), store, prefix, tree); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := trees[len(trees)-1]
	r := tilelog.NewReader(store, prefix)
	for _, tree := range trees {
		proof, err := r.ProveConsistency(t.Context(), tree.N, last)
		if tree.N == 0 {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckTree(proof, last.N, last.Hash, tree.N, tree.Hash); err != nil {
			t.Errorf("size %d: %v", tree.N, err)
		}
		if root, err := r.RootAt(t.Context(), tree.N, last); err != nil || root != tree.Hash {
			t.Errorf("root at %d: %v, %v", tree.N, root, err)
		}
	}
	for range 200 {
		n := random.Int64N(last.N)
		proof, err := r.ProveInclusion(t.Context(), n, last)
		if err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckRecord(proof, last.N, last.Hash, n, tlog.RecordHash(entryOf(n))); err != nil {
			t.Errorf("entry %d: %v", n, err)
		}
	}
	next := int64(0)
	err = r.Entries(t.Context(), 0, last.N, last.N, func(index int64, entry []byte) error {
		if index != next || !bytes.Equal(entry, entryOf(index)) {
			return fmt.Errorf("entry %d is %q, want %d", index, entry, next)
		}
		next++
		return nil
	})
	if err != nil || next != last.N {
		t.Errorf("%d of %d entries: %v", next, last.N, err)
	}
	for _, tree := range trees {
		next = 0
		if err := r.All(t.Context(), tree, func(int64, []byte) error { next++; return nil }); err != nil || next != tree.N {
			t.Errorf("all %d entries: %d, %v", tree.N, next, err)
		}
		tree.Hash[0]++
		if err := r.All(t.Context(), tree, func(int64, []byte) error { return nil }); tree.N > 0 && !errors.Is(err, tilelog.ErrDamaged) {
			t.Errorf("the entries of another tree of %d: %v", tree.N, err)
		}
	}
	var partials []string
	list(t, store, func(info blob.Info) { partials = append(partials, info.Key) })
	if most := int(last.N/256+last.N/65536+1)*2 + 600; len(partials) > most {
		t.Errorf("%d blobs, want at most %d: partial tiles stay", len(partials), most)
	}
}

func list(t *testing.T, store blob.Store, visit func(blob.Info)) {
	t.Helper()
	err := store.Sweep(t.Context(), prefix, time.Now().Add(time.Hour), func(info blob.Info) error { visit(info); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func TestPartialTilesGo(t *testing.T) {
	store := open(t)
	l, err := tilelog.Open(t.Context(), store, prefix, tlog.Tree{})
	if err != nil {
		t.Fatal(err)
	}
	for size := range int64(256) {
		tree := grow(t, l, size+1)
		if size == 100 { // whoever opens it does not know which widths were written
			if l, err = tilelog.Open(t.Context(), store, prefix, tree); err != nil {
				t.Fatal(err)
			}
		}
	}
	var keys []string
	list(t, store, func(info blob.Info) { keys = append(keys, info.Key) })
	if len(keys) != 3 { // the full tile, its entries, and the first hash of the level above
		t.Errorf("blobs %q", keys)
	}
}

func TestDamagedTilesAreNoticed(t *testing.T) {
	store := open(t)
	l, err := tilelog.Open(t.Context(), store, prefix, tlog.Tree{})
	if err != nil {
		t.Fatal(err)
	}
	tree := grow(t, l, 1000)
	var keys []string
	list(t, store, func(info blob.Info) { keys = append(keys, info.Key) })
	for _, key := range keys {
		reader, _, err := store.Get(t.Context(), key, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err := errors.Join(err, reader.Close()); err != nil {
			t.Fatal(err)
		}
		for _, damage := range [][]byte{nil, data[:len(data)-1], flipped(data)} {
			if damage == nil {
				err = store.Delete(t.Context(), key)
			} else {
				err = put(t.Context(), store, key, damage)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := readAll(t.Context(), store, tree); err == nil {
				t.Errorf("%s with %d of %d bytes is taken", key, len(damage), len(data))
			}
		}
		if err := put(t.Context(), store, key, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := readAll(t.Context(), store, tree); err != nil {
		t.Error(err)
	}
	if _, err := tilelog.Open(t.Context(), store, prefix, tlog.Tree{N: 999, Hash: tree.Hash}); !errors.Is(err, tilelog.ErrDamaged) {
		t.Errorf("another size: %v", err)
	}
}

func flipped(data []byte) []byte {
	out := bytes.Clone(data)
	out[len(out)/2] ^= 1
	return out
}

func put(ctx context.Context, store blob.Store, key string, data []byte) error {
	_, err := store.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	return err
}

// readAll opens a log, and proves each of its entries.
func readAll(ctx context.Context, store blob.Store, tree tlog.Tree) error {
	_, err := tilelog.Open(ctx, store, prefix, tree)
	r := tilelog.NewReader(store, prefix)
	return errors.Join(err, r.Entries(ctx, 0, tree.N, tree.N, func(index int64, entry []byte) error {
		proof, err := r.ProveInclusion(ctx, index, tree)
		if err != nil {
			return err
		}
		return tlog.CheckRecord(proof, tree.N, tree.Hash, index, tlog.RecordHash(entry))
	}))
}

func TestEntriesAreBounded(t *testing.T) {
	l, err := tilelog.Open(t.Context(), open(t), prefix, tlog.Tree{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), make([]byte, tilelog.MaxEntry)); err != nil {
		t.Error(err)
	}
	if err := l.Append(t.Context(), make([]byte, tilelog.MaxEntry+1)); !errors.Is(err, tilelog.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestCheckpointsAreSignedWithTheKeyOfTheirLog(t *testing.T) {
	private, public, err := note.GenerateKey(nil, "example.com/log")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	tree := tlog.Tree{N: 7, Hash: tlog.RecordHash([]byte("a"))}
	checkpoint, err := tilelog.Sign(tree, signer)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tilelog.Parse(checkpoint, verifier); err != nil || got != tree {
		t.Errorf("got %v, %v", got, err)
	}
	for i := range checkpoint {
		edited := bytes.Clone(checkpoint)
		edited[i] ^= 1
		if got, err := tilelog.Parse(edited, verifier); err == nil && got != tree {
			t.Errorf("byte %d is changed, and it is taken for %v", i, got)
		}
	}
	if _, err := tilelog.Parse(append(checkpoint, make([]byte, tilelog.MaxCheckpoint)...), verifier); !errors.Is(err, tilelog.ErrCheckpoint) {
		t.Errorf("too large: %v", err)
	}
}

func TestTilePaths(t *testing.T) {
	for path, want := range map[string]bool{
		"tile/0/000": true, "tile/0/x001/067": true, "tile/3/x999/x999/999.p/255": true, "tile/entries/x001/067.p/1": true,
		"tile/0/000.p/256": false, "tile/0/000.p/0": false, "tile/0/x000/000": false, "tile/0/00": false, "tile/-1/000": false, "tile/data/000": false,
		"tile/8/0/000": false, "tile/0/../state": false, "checkpoint": false, "": false, "tile/": false, "tile/0/000/": false, "tile/00/000": false,
	} {
		if got := tilelog.IsTile(path); got != want {
			t.Errorf("%q: %v", path, got)
		}
	}
}
