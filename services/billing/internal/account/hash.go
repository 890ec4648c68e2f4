package account

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"quire.dev/pkg/event"
)

// hash128 is a sum of hashes mod 2^128: parties can be replaced in it one by one.
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

func hashOf(tag byte, data []byte) hash128 {
	h := sha256.New()
	h.Write([]byte{tag})
	h.Write(data)
	sum := h.Sum(nil)
	return hash128{binary.BigEndian.Uint64(sum), binary.BigEndian.Uint64(sum[8:])}
}

// StateHash stands for the whole state, the chain over the messages included: folds with equal
// hashes have folded the same messages and come to the same state. Only parties that have changed
// since the last call are hashed again.
func (f *Fold) StateHash() ([16]byte, error) {
	for i, p := range f.dirty {
		var now hash128
		if !p.gone {
			data, tag, err := p.encode()
			if err != nil {
				return [16]byte{}, err
			}
			now = hashOf(tag, data)
		}
		f.total = f.total.minus(p.hash).plus(now)
		p.hash, p.dirty = now, false
		f.dirty[i] = nil
	}
	f.dirty = f.dirty[:0]
	global, err := event.Encode(f.globalState())
	if err != nil {
		return [16]byte{}, err
	}
	sum := f.total.plus(hashOf('g', global))
	var out [16]byte
	binary.BigEndian.PutUint64(out[:8], sum.high)
	binary.BigEndian.PutUint64(out[8:], sum.low)
	return out, nil
}

func (p *party) encode() (data []byte, tag byte, err error) {
	if p.account != nil {
		data, err = event.Encode(p.account.state())
		return data, 'a', err
	}
	data, err = event.Encode(p.network.state())
	return data, 'n', err
}
