package proof

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math/bits"
	"slices"

	"quire.dev/pkg/num"
)

// Key is an account's place in a tree.
type Key [sha256.Size]byte

// KeyOf returns an account's key.
func KeyOf(account uint64) Key {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte("quire account tree\n"), account))
}

// bit returns the bit at an index, from the most significant one on.
func (k *Key) bit(i int) byte { return k[i/8] >> (7 - i%8) & 1 }

// keyBits is more than the index of any bit of a key.
const keyBits = 8 * sha256.Size

// differ returns the index of the first bit in which two keys differ, or keyBits.
func differ(a, b *Key) int {
	for i := range a {
		if x := a[i] ^ b[i]; x != 0 {
			return 8*i + bits.LeadingZeros8(x)
		}
	}
	return keyBits
}

// Sums are three numbers that are added up in a tree. What they count depends on the tree.
type Sums [3]uint64

func (s Sums) plus(t Sums) Sums { return Sums{s[0] + t[0], s[1] + t[1], s[2] + t[2]} }

func (s Sums) appendTo(data []byte) []byte {
	for _, n := range s {
		data = binary.BigEndian.AppendUint64(data, n)
	}
	return data
}

func readSums(data []byte) (s Sums) {
	for i := range s {
		s[i] = binary.BigEndian.Uint64(data[8*i:])
	}
	return s
}

// Root commits to a tree, or to a part of it.
type Root struct {
	Hash [sha256.Size]byte // zero without leaves
	Sums Sums
}

// RootBytes is the size of an encoded root: its hash, and its sums in 8 bytes each.
const RootBytes = sha256.Size + 8*len(Sums{})

// AppendTo appends the encoded root.
func (r *Root) AppendTo(data []byte) []byte { return r.Sums.appendTo(append(data, r.Hash[:]...)) }

// ReadRoot decodes a root from the first RootBytes of data.
func ReadRoot(data []byte) (r Root) {
	copy(r.Hash[:], data)
	r.Sums = readSums(data[sha256.Size:])
	return r
}

// Leaf is what a tree has of one account.
type Leaf struct {
	Key     Key
	Sums    Sums
	Content [sha256.Size]byte
}

// LeafBytes is the size of an encoded leaf: its key, its sums in 8 bytes each, and its content.
const LeafBytes = 2*sha256.Size + 8*len(Sums{})

// AppendTo appends the encoded leaf.
func (l *Leaf) AppendTo(data []byte) []byte {
	return append(l.Sums.appendTo(append(data, l.Key[:]...)), l.Content[:]...)
}

// ReadLeaf decodes a leaf from the first LeafBytes of data.
func ReadLeaf(data []byte) (l Leaf) {
	copy(l.Key[:], data)
	l.Sums = readSums(data[sha256.Size:])
	copy(l.Content[:], data[LeafBytes-sha256.Size:])
	return l
}

func (l *Leaf) root() Root {
	var data [1 + LeafBytes]byte
	return Root{Hash: sha256.Sum256(l.AppendTo(data[:1])), Sums: l.Sums}
}

// join is the root over two parts, of which the keys differ first at a bit.
func join(bit int, left, right *Root) Root {
	var data [3 + 2*RootBytes]byte
	data[0] = 1
	binary.BigEndian.PutUint16(data[1:], num.Uint16(bit))
	return Root{Hash: sha256.Sum256(right.AppendTo(left.AppendTo(data[:3]))), Sums: left.Sums.plus(right.Sums)}
}

// Step is a node on the way from a leaf to the root: its bit, and its other side.
type Step struct {
	Bit   int
	Other Root
}

// Climb returns the root that a path leads to from a leaf. ok is false if it is not the path of the key.
func Climb(key Key, leaf *Leaf, path []Step) (root Root, ok bool) {
	root, below := leaf.root(), keyBits
	for _, step := range path {
		if step.Bit < 0 || step.Bit >= below || key.bit(step.Bit) != leaf.Key.bit(step.Bit) {
			return root, false
		}
		if below = step.Bit; key.bit(step.Bit) == 0 {
			root = join(step.Bit, &root, &step.Other)
		} else {
			root = join(step.Bit, &step.Other, &root)
		}
	}
	return root, true
}

// Tree has at most one leaf for each account: a binary trie over their keys, without nodes that have one side only. It is immutable, and its zero
// value is empty. docs/journal.md (Seals) specifies its root.
type Tree struct{ top *node }

// node is a leaf, or has two sides.
type node struct {
	root        Root
	bit         int   // keyBits: a leaf
	leaf        *Leaf // of a leaf; else one on the left
	left, right *node
}

// Root returns the root of the tree.
func (t Tree) Root() Root {
	if t.top == nil {
		return Root{}
	}
	return t.top.root
}

// With returns the tree with other leaves in addition, or instead of those with the same keys. It sorts them. Each key is in them once.
func (t Tree) With(leaves []Leaf) Tree {
	slices.SortFunc(leaves, func(a, b Leaf) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	nodes := make([]*node, len(leaves))
	for i, l := range leaves {
		nodes[i] = &node{root: l.root(), bit: keyBits, leaf: &l} // each by itself: a slice would live as long as one of them
	}
	return Tree{t.top.with(nodes)}
}

// Part is all leaves of a tree whose keys begin like Prefix, up to a number of bits.
type Part struct {
	Prefix Key
	Root   Root
}

// Over returns a tree that has the root of the tree of these parts, and a leaf for each of them with its prefix as the key. They are in the
// order of their prefixes.
func Over(parts []Part) Tree {
	nodes := make([]*node, len(parts))
	for i, p := range parts {
		nodes[i] = &node{root: p.Root, bit: keyBits, leaf: &Leaf{Key: p.Prefix}}
	}
	return Tree{(*node)(nil).with(nodes)}
}

// with adds leaves in the order of their keys.
func (n *node) with(leaves []*node) *node {
	if len(leaves) == 0 {
		return n
	}
	first, last := leaves[0], leaves[len(leaves)-1]
	bit := differ(&first.leaf.Key, &last.leaf.Key)
	if n != nil {
		bit = min(bit, n.bit, differ(&n.leaf.Key, &first.leaf.Key), differ(&n.leaf.Key, &last.leaf.Key))
	}
	if bit == keyBits {
		return first
	}
	middle, _ := slices.BinarySearchFunc(leaves, 1, func(l *node, want int) int { return int(l.leaf.Key.bit(bit)) - want })
	var left, right *node
	switch {
	case n == nil:
	case n.bit == bit:
		left, right = n.left, n.right
	case n.leaf.Key.bit(bit) == 0:
		left = n
	default:
		right = n
	}
	return over(bit, left.with(leaves[:middle]), right.with(leaves[middle:]))
}

func over(bit int, left, right *node) *node {
	return &node{root: join(bit, &left.root, &right.root), bit: bit, leaf: left.leaf, left: left, right: right}
}

// Find returns the leaf to which a key leads, with its path, or nil if the tree is empty. A leaf with another key proves that the tree
// lacks this one.
func (t Tree) Find(key Key) (*Leaf, []Step) {
	n := t.top
	if n == nil {
		return nil, nil
	}
	var path []Step
	for n.bit != keyBits {
		next, other := n.left, n.right
		if key.bit(n.bit) == 1 {
			next, other = other, next
		}
		path, n = append(path, Step{Bit: n.bit, Other: other.root}), next
	}
	slices.Reverse(path)
	return n.leaf, path
}

// Leaves are all leaves in the order of their keys.
func (t Tree) Leaves() iter.Seq[*Leaf] {
	return func(yield func(*Leaf) bool) { t.top.each(yield) }
}

func (n *node) each(yield func(*Leaf) bool) bool {
	switch {
	case n == nil:
		return true
	case n.bit == keyBits:
		return yield(n.leaf)
	}
	return n.left.each(yield) && n.right.each(yield)
}
