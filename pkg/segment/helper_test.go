package segment_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/segment"
)

const stream, installation = "BILLING_0", "qInstallation1"

var seedFlag = flag.Uint64("segment.seed", 0, "seed of drawn messages; 0 draws one")

// draw returns a source of random values, whose seed is in the test's output.
func draw(t testing.TB) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-segment.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// chain is the chain of docs/journal.md, with the kind 1.
func chain(before segment.Hash, m segment.Message) segment.Hash {
	head := binary.BigEndian.AppendUint64(nil, m.Sequence)
	head = binary.BigEndian.AppendUint64(head, uint64(m.TimeNanos))
	head = binary.BigEndian.AppendUint16(append(head, 1), uint16(len(m.Subject)))
	h := sha256.New()
	h.Write(append(head, m.Subject...))
	h.Write(m.Data)
	return sha256.Sum256(h.Sum(before[:]))
}

// note is a message of the tests: its data is entries of a kind, 8 bytes, and noise.
type note struct {
	accounts, networks []uint64
	requests           []int64
	noise              []byte
}

func (n note) encode() []byte {
	b := []byte{byte(len(n.accounts)), byte(len(n.networks)), byte(len(n.requests))}
	for _, list := range [][]uint64{n.accounts, n.networks} {
		for _, v := range list {
			b = binary.BigEndian.AppendUint64(b, v)
		}
	}
	for _, v := range n.requests {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return append(b, n.noise...)
}

// decode returns the zero note for data that is none.
func decode(b []byte) (n note) {
	if len(b) < 3 || len(b) < 3+8*(int(b[0])+int(b[1])+int(b[2])) {
		return n
	}
	accounts, networks, requests, b := b[0], b[1], b[2], b[3:]
	next := func() (v uint64) {
		v, b = binary.BigEndian.Uint64(b), b[8:]
		return v
	}
	for range accounts {
		n.accounts = append(n.accounts, next())
	}
	for range networks {
		n.networks = append(n.networks, next())
	}
	for range requests {
		n.requests = append(n.requests, int64(next()))
	}
	return n
}

func mentions(m segment.Message, found *segment.Mentions) {
	n := decode(m.Data)
	found.Accounts = append(found.Accounts, n.accounts...)
	found.Networks = append(found.Networks, n.networks...)
	for _, ms := range n.requests {
		found.Request(ms)
	}
}

func newArchive(t testing.TB, store blob.Store) *segment.Archive {
	t.Helper()
	a, err := segment.New(store, segment.Options{Installation: installation, Chain: chain, Mentions: mentions, Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newStore(t testing.TB) *disk.Store {
	t.Helper()
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

const startNanos = 1_800_000_000_000_000_000

// drawn returns n messages from a sequence on, of few accounts, with a clock that sometimes goes back.
func drawn(r *rand.Rand, from uint64, n int) []segment.Message {
	out := make([]segment.Message, n)
	for i := range out {
		nanos := startNanos + int64(from+uint64(i))*5_000_000 + r.Int64N(20_000_000)
		w := note{noise: make([]byte, r.IntN(60))}
		for range r.IntN(4) {
			w.accounts = append(w.accounts, 1+r.Uint64N(40)*0x0123456789abcdef)
			w.requests = append(w.requests, nanos/1_000_000-r.Int64N(100))
		}
		for range r.IntN(2) {
			w.networks = append(w.networks, 1+r.Uint64N(20))
		}
		for k := range w.noise {
			w.noise[k] = byte(r.Uint32())
		}
		out[i] = segment.Message{Sequence: from + uint64(i), TimeNanos: nanos, Subject: fmt.Sprintf("billing.0.s%d", r.IntN(12)), Data: w.encode()}
		if r.IntN(50) == 0 {
			out[i].Data = nil
		}
	}
	return out
}

// write writes messages as one segment, after a chain.
func write(t testing.TB, a *segment.Archive, before segment.Hash, messages []segment.Message) segment.Segment {
	t.Helper()
	w, err := a.Create(stream, 0, before)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, m := range messages {
		if err := w.Add(m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Put(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// chainOf is the chain after messages.
func chainOf(messages []segment.Message) (c segment.Hash) {
	for _, m := range messages {
		c = chain(c, m)
	}
	return c
}

// replay returns what Replay handles, without empty data that is not nil.
func replay(t testing.TB, a *segment.Archive, from, to uint64) (out []segment.Message, err error) {
	t.Helper()
	err = a.Replay(context.Background(), stream, from, to, func(m segment.Message) error {
		m.Data = append([]byte(nil), m.Data...)
		out = append(out, m)
		return nil
	})
	return out, err
}

func content(t testing.TB, store blob.Store, key string) []byte {
	t.Helper()
	r, _, err := store.Get(context.Background(), key, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func requireDamaged(t *testing.T, what string, err error, key string) {
	t.Helper()
	var damage *segment.DamageError
	if !errors.Is(err, segment.ErrDamaged) || !errors.As(err, &damage) || damage.Segment != key {
		t.Fatalf("%s: %v, want ErrDamaged of %s", what, err, key)
	}
}

func requireGap(t *testing.T, err error, first, last uint64) {
	t.Helper()
	var gap *segment.GapError
	if !errors.Is(err, segment.ErrGap) || !errors.As(err, &gap) || gap.First != first || gap.Last != last {
		t.Fatalf("%v, want the gap %d to %d", err, first, last)
	}
}
