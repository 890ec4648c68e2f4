package account

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"

	"quire.dev/pkg/event"
)

// hash128 is a sum of hashes mod 2^128, in which one principal's hash can be replaced independently.
type hash128 struct{ high, low uint64 }

func (a hash128) plus(b hash128) hash128 {
	low, carry := bits.Add64(a.low, b.low, 0)
	high, _ := bits.Add64(a.high, b.high, carry)
	return hash128{high, low}
}

func (a hash128) minus(b hash128) hash128 {
	low, borrow := bits.Sub64(a.low, b.low, 0)
	high, _ := bits.Sub64(a.high, b.high, borrow)
	return hash128{high, low}
}

func (a hash128) bytes() (out [16]byte) {
	binary.BigEndian.PutUint64(out[:8], a.high)
	binary.BigEndian.PutUint64(out[8:], a.low)
	return out
}

func hashOf(tag byte, data []byte) hash128 {
	h := sha256.New()
	h.Write([]byte{tag})
	h.Write(data)
	sum := h.Sum(nil)
	return hash128{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])}
}

// StateHash is a hash of the whole state, including the chain over the messages. Folds with equal hashes have folded the same
// messages and reached the same state. It encodes and hashes only the principals changed since the last call. After ErrState it
// returns that error.
func (f *Fold) StateHash() ([16]byte, error) {
	hash, _, err := f.hash()
	return hash, err
}

func (f *Fold) hash() (hash [16]byte, global []byte, err error) {
	if f.broken != nil {
		return hash, nil, f.broken
	}
	if _, err := f.Clean(len(f.dirty)); err != nil {
		return hash, nil, err
	}
	if global, err = event.Encode(f.globalState()); err != nil {
		return hash, nil, err
	}
	return f.total.plus(hashOf(tagGlobal, global)).bytes(), global, nil
}

// Clean encodes and hashes up to n changed principals, and returns how many are left. It does part of the work of StateHash and
// Image beforehand, without changing any decision or hash.
func (f *Fold) Clean(n int) (left int, err error) {
	n = min(n, len(f.dirty))
	for i, p := range f.dirty[:n] {
		var now hash128
		p.encoded = nil
		if !p.gone {
			tag := byte(tagNetwork)
			if p.encoded, err = p.encode(); err != nil {
				return len(f.dirty), err
			}
			if p.account != nil {
				tag = tagAccount
			}
			now = hashOf(tag, p.encoded)
		}
		f.total = f.total.minus(p.hash).plus(now)
		p.hash, p.dirty = now, false
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

// Tags precede the hashed data, so that accounts, networks and the rest never hash alike.
const (
	tagAccount = 'a'
	tagNetwork = 'n'
	tagGlobal  = 'g'
)

// Image is the whole state at one sequence, for a snapshot. It shares nothing mutable with the fold. Taking it is cheap,
// because the encoded principals are kept from hashing.
type Image struct {
	Sequence uint64
	Hash     [16]byte

	global             []byte
	accounts, networks []imagePrincipal
}

type imagePrincipal struct {
	id   uint64
	data []byte
}

// Image takes an image of the state. After ErrState it returns that error.
func (f *Fold) Image() (*Image, error) {
	hash, global, err := f.hash()
	if err != nil {
		return nil, err
	}
	i := &Image{Sequence: f.sequence, Hash: hash, global: global}
	i.accounts = make([]imagePrincipal, 0, len(f.principals.accounts))
	for id, a := range f.principals.accounts { // sorted in Encode
		i.accounts = append(i.accounts, imagePrincipal{id, a.encoded})
	}
	i.networks = make([]imagePrincipal, 0, len(f.principals.networks))
	for id, n := range f.principals.networks {
		i.networks = append(i.networks, imagePrincipal{id, n.encoded})
	}
	return i, nil
}

// Encode encodes the image as an event.BillingState, which Restore takes. Equal states encode to equal bytes.
func (i *Image) Encode() []byte {
	size := len(i.global)
	for _, list := range [][]imagePrincipal{i.accounts, i.networks} {
		slices.SortFunc(list, func(a, b imagePrincipal) int { return cmp.Compare(a.id, b.id) })
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
