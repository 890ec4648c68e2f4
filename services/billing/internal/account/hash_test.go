package account

import (
	"crypto/sha256"
	"fmt"
	"math/bits"
	"testing"

	"quire.dev/pkg/plan"
)

// rootOf is the definition in RFC 6962, section 2.1.
func rootOf(leaves []Hash) Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1 << (bits.Len(uint(len(leaves)-1)) - 1) // the largest power of two below the number
	left, right := rootOf(leaves[:k]), rootOf(leaves[k:])
	return sha256.Sum256(append(append([]byte{tagNode}, left[:]...), right[:]...))
}

func TestTheStateHashIsAMerkleRoot(t *testing.T) {
	var leaves []Hash
	for n := range 130 {
		leaves = append(leaves, leafOf(tagAccount, fmt.Append(nil, n)))
		var one tree
		for _, l := range leaves {
			one.add(l)
		}
		if one.root() != rootOf(leaves) {
			t.Fatalf("%d leaves have another root", len(leaves))
		}
	}
	h := newHistory(t, plan.Published(10))
	for n := range uint64(5) {
		h.account(9-n, plan.Pro)
	}
	h.admit(h.anonymous())
	image, err := h.fold.Image()
	if err != nil {
		t.Fatal(err)
	}
	leaves = nil
	for id := uint64(5); id <= 9; id++ {
		leaves = append(leaves, leafOf(tagAccount, h.fold.principals.accounts[id].encoded))
	}
	leaves = append(leaves, leafOf(tagNetwork, image.networks[0].data), leafOf(tagGlobal, image.global))
	if got := stateHash(t, h.fold); got != rootOf(leaves) || got != image.Hash() {
		t.Errorf("the state has the hash %x", got)
	}
}

// TestTheChainBindsAllOfAMessage: whatever is changed about one message, the head is another.
func TestTheChainBindsAllOfAMessage(t *testing.T) {
	message := Message{Sequence: 1, TimeNanos: 1_800_000_000_000_000_001, Subject: "billing.0.settle.paste", Kind: SettledPaste, Data: []byte("bc")}
	heads := map[Head]string{}
	for name, change := range map[string]func(*Message){
		"nothing":                      func(*Message) {},
		"a nanosecond":                 func(m *Message) { m.TimeNanos++ },
		"the subject":                  func(m *Message) { m.Subject = "billing.0.settle.other" },
		"the kind":                     func(m *Message) { m.Kind = SettledLite },
		"a byte":                       func(m *Message) { m.Data = []byte("bd") },
		"an end":                       func(m *Message) { m.Data = []byte("b") },
		"where the subject ends":       func(m *Message) { m.Subject, m.Data = m.Subject+"b", []byte("c") },
		"a message before it":          func(m *Message) { m.Sequence = 2 },
		"a subject longer than others": func(m *Message) { m.Subject = fmt.Sprintf("%0200d", 0) },
	} {
		m := message
		change(&m)
		f := New()
		if m.Sequence > 1 {
			_, _ = f.Apply(message) // undecodable, and in the chain
		}
		_, _ = f.Apply(m)
		if other, found := heads[f.Head()]; found {
			t.Errorf("%s and %s give one head", name, other)
		}
		heads[f.Head()] = name
	}
}
