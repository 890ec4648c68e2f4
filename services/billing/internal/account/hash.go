package account

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"quire.dev/pkg/event"
)

// Hash commits to a whole state, including the chain over the messages. Folds with equal hashes have folded the same messages and
// reached the same state.
//
// It is the root of the Merkle tree of RFC 6962 with SHA-256. Its leaves are the encoded accounts, then the networks, each in
// ascending order of their ids, and last the rest of the state.
type Hash [sha256.Size]byte

// Head is the head of the chain over the messages: its value after the message at Sequence, which is also their number.
type Head struct {
	Sequence uint64
	Chain    Hash
}

// After is the head with the next message.
func (h Head) After(m Message) Head {
	return Head{Sequence: m.Sequence, Chain: nextChain(h.Chain, Digest(m))}
}

// Tags precede hashed data, so that accounts, networks, the rest of the state and inner nodes never hash alike.
const (
	tagAccount = 'a'
	tagNetwork = 'n'
	tagGlobal  = 'g'
	tagNode    = 1
)

func leafOf(tag byte, data []byte) Hash {
	h := sha256.New()
	h.Write([]byte{tag})
	h.Write(data)
	var sum Hash
	h.Sum(sum[:0])
	return sum
}

// tree computes a root from leaves in order.
type tree struct {
	leaves uint64
	nodes  []Hash // roots of complete subtrees, one for each bit of leaves, the largest first
}

func (t *tree) add(leaf Hash) {
	for n := t.leaves; n&1 == 1; n >>= 1 {
		leaf = t.join(leaf)
	}
	t.nodes = append(t.nodes, leaf)
	t.leaves++
}

// root ends the tree, which has a leaf.
func (t *tree) root() Hash {
	for len(t.nodes) > 1 {
		last := t.nodes[len(t.nodes)-1]
		t.nodes = t.nodes[:len(t.nodes)-1]
		t.nodes = append(t.nodes, t.join(last))
	}
	return t.nodes[0]
}

// join removes the last subtree and returns the node above it and its right neighbour.
func (t *tree) join(right Hash) Hash {
	left := t.nodes[len(t.nodes)-1]
	t.nodes = t.nodes[:len(t.nodes)-1]
	var both [1 + 2*sha256.Size]byte
	both[0] = tagNode
	copy(both[1:], left[:])
	copy(both[1+sha256.Size:], right[:])
	return sha256.Sum256(both[:])
}

// StateHash is the Hash of the state. It encodes only the principals changed since the last call, and hashes all. It returns the
// error that made the fold unusable, if any.
func (f *Fold) StateHash() (Hash, error) {
	image, err := f.Image()
	if err != nil {
		return Hash{}, err
	}
	return image.Hash(), nil
}

// Clean encodes up to n changed principals, and returns how many are left. It does part of the work of Image beforehand, without
// changing any decision or hash.
func (f *Fold) Clean(n int) (left int, err error) {
	n = min(n, len(f.dirty))
	for i, p := range f.dirty[:n] {
		p.encoded = nil
		if !p.gone {
			if p.encoded, err = p.encode(); err != nil {
				return len(f.dirty), err
			}
		}
		p.dirty = false
		f.dirty[i] = nil
	}
	f.dirty = f.dirty[n:]
	if len(f.dirty) == 0 {
		f.dirty = nil
	}
	return len(f.dirty), nil
}

func (p *principal) encode() ([]byte, error) {
	if p.account != nil {
		return event.Encode(p.account.state())
	}
	return event.Encode(p.network.state())
}

// Image is the whole state at one sequence, for a snapshot. It shares nothing mutable with the fold, and taking it is cheap. Not
// safe for concurrent use.
type Image struct {
	Head
	Entries uint64 // as Fold.Entries

	global             []byte
	accounts, networks []imagePrincipal
}

type imagePrincipal struct {
	id   uint64
	data []byte
}

// Image takes an image of the state. It returns the error that made the fold unusable, if any.
func (f *Fold) Image() (*Image, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	if _, err := f.Clean(len(f.dirty)); err != nil {
		return nil, err
	}
	global, err := event.Encode(f.globalState())
	if err != nil {
		return nil, err
	}
	i := &Image{Head: f.Head(), Entries: f.entries, global: global}
	i.accounts = make([]imagePrincipal, 0, len(f.principals.accounts))
	for id, a := range f.principals.accounts { // sorted later, while the fold continues
		i.accounts = append(i.accounts, imagePrincipal{id, a.encoded})
	}
	i.networks = make([]imagePrincipal, 0, len(f.principals.networks))
	for id, n := range f.principals.networks {
		i.networks = append(i.networks, imagePrincipal{id, n.encoded})
	}
	return i, nil
}

func (i *Image) sort() {
	for _, list := range [][]imagePrincipal{i.accounts, i.networks} {
		slices.SortFunc(list, func(a, b imagePrincipal) int { return cmp.Compare(a.id, b.id) })
	}
}

// Hash is the hash of the state.
func (i *Image) Hash() Hash {
	i.sort()
	var h ImageHash
	for _, a := range i.accounts {
		h.Add(AccountsField, a.data)
	}
	for _, n := range i.networks {
		h.Add(NetworksField, n.data)
	}
	return h.Sum(i.global)
}

// ImageHash computes the hash of an Image from the fields of its encoding, in their order. The zero value has none.
type ImageHash struct{ tree tree }

// Add adds an encoded principal.
func (h *ImageHash) Add(field uint64, data []byte) { h.tree.add(principalLeaf(field, data)) }

func principalLeaf(field uint64, data []byte) Hash {
	if field == NetworksField {
		return leafOf(tagNetwork, data)
	}
	return leafOf(tagAccount, data)
}

// Sum returns the hash of the image. global is the encoding of all other fields. Nothing can be added afterwards.
func (h *ImageHash) Sum(global []byte) Hash {
	h.tree.add(leafOf(tagGlobal, global))
	return h.tree.root()
}

// Encode encodes the image as an event.BillingState, which Restore takes. Equal states encode to equal bytes.
func (i *Image) Encode() []byte {
	i.sort()
	size := len(i.global)
	for _, list := range [][]imagePrincipal{i.accounts, i.networks} {
		for _, p := range list {
			size += len(p.data) + 1 + binary.MaxVarintLen32
		}
	}
	// In Protobuf, concatenated messages merge into one.
	out := append(make([]byte, 0, size), i.global...)
	out = appendPrincipals(out, AccountsField, i.accounts)
	return appendPrincipals(out, NetworksField, i.networks)
}

// Field numbers of the principals in BillingState. Each fits into one byte together with its wire type. The id of a principal
// is its field 1, a fixed64.
const (
	AccountsField = 6
	NetworksField = 7
	bytesType     = 2
)

func appendPrincipals(out []byte, field byte, list []imagePrincipal) []byte {
	for _, p := range list {
		out = append(out, field<<3|bytesType)
		out = binary.AppendUvarint(out, uint64(len(p.data)))
		out = append(out, p.data...)
	}
	return out
}
