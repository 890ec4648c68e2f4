package seal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/num"
	"quire.dev/pkg/proof"
)

// A stored tree is read in two parts to find a path in it: an index of buckets, and the leaves of one. A bucket has the leaves of which the keys begin
// with the same bits, about bucketLeaves of them. Numbers are big-endian.
//
//	1 byte: bits
//	of each of 2^bits buckets: number of leaves (4 bytes), and the root over them
//	all leaves, in the order of their keys
const (
	bucketLeaves = 256
	maxBits      = 16
	indexBytes   = 4 + proof.RootBytes
)

// ErrDamaged: a stored tree is not what was written.
var ErrDamaged = errors.New("stored tree is damaged")

// Write stores a tree.
func Write(ctx context.Context, store blob.Store, key string, tree proof.Tree) error {
	leaves := slices.Collect(tree.Leaves())
	bits := 0
	for bits < maxBits && len(leaves)>>bits > bucketLeaves {
		bits++
	}
	data := []byte{byte(bits)}
	for at := range 1 << bits {
		bucket := inBucket(leaves, at, bits)
		root := treeOf(bucket).Root()
		data = root.AppendTo(binary.BigEndian.AppendUint32(data, num.Uint32(len(bucket))))
	}
	for _, l := range leaves {
		data = l.AppendTo(data)
	}
	_, err := store.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
	return err
}

// inBucket returns the leaves of a bucket.
func inBucket(leaves []*proof.Leaf, at, bits int) []*proof.Leaf {
	order := func(l *proof.Leaf, bucket int) int { return bucketOf(l.Key, bits) - bucket }
	from, _ := slices.BinarySearchFunc(leaves, at, order)
	to, _ := slices.BinarySearchFunc(leaves, at+1, order)
	return leaves[from:to]
}

func bucketOf(key proof.Key, bits int) int {
	return int(binary.BigEndian.Uint32(key[:])) >> (32 - bits)
}

func treeOf(leaves []*proof.Leaf) proof.Tree {
	list := make([]proof.Leaf, len(leaves))
	for i, l := range leaves {
		list[i] = *l
	}
	return proof.Tree{}.With(list)
}

// Find is proof.Tree.Find of a stored tree. leaf is nil if the tree is empty.
func Find(ctx context.Context, store blob.Store, name string, key proof.Key) (leaf *proof.Leaf, path []proof.Step, err error) {
	head, err := read(ctx, store, name, 0, 1)
	if err != nil {
		return nil, nil, err
	}
	bits := int(head[0])
	if bits > maxBits {
		return nil, nil, fmt.Errorf("%w: %s has 2^%d buckets", ErrDamaged, name, bits)
	}
	index, err := read(ctx, store, name, 1, indexBytes<<bits)
	if err != nil {
		return nil, nil, err
	}
	var tops []proof.Part
	before, first, counts := 0, make([]int, 1<<bits), make([]int, 1<<bits)
	for at := range counts {
		of := index[at*indexBytes:]
		first[at], counts[at] = before, int(binary.BigEndian.Uint32(of))
		before += counts[at]
		if counts[at] > 0 {
			var prefix proof.Key
			binary.BigEndian.PutUint32(prefix[:], num.Uint32(at)<<(32-bits))
			tops = append(tops, proof.Part{Prefix: prefix, Root: proof.ReadRoot(of[4:])})
		}
	}
	if len(tops) == 0 {
		return nil, nil, nil
	}
	prefix, above := proof.Over(tops).Find(key)
	at := bucketOf(prefix.Key, bits)
	data, err := read(ctx, store, name, int64(1+len(index)+first[at]*proof.LeafBytes), counts[at]*proof.LeafBytes)
	if err != nil {
		return nil, nil, err
	}
	var leaves []proof.Leaf
	for part := range slices.Chunk(data, proof.LeafBytes) {
		leaves = append(leaves, proof.ReadLeaf(part))
	}
	leaf, path = proof.Tree{}.With(leaves).Find(key)
	return leaf, append(path, above...), nil
}

// read reads a part of a blob.
func read(ctx context.Context, store blob.Store, key string, from int64, size int) (data []byte, err error) {
	r, _, err := store.Get(ctx, key, from, int64(size))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	data = make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, key, err)
	}
	return data, nil
}
