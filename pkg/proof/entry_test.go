package proof_test

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
	"google.golang.org/protobuf/encoding/protowire"

	"quire.dev/pkg/proof"
)

func TestEntriesHaveTheirBytes(t *testing.T) {
	stored := time.Unix(1_792_065_600, 123).UTC()
	m := proof.Digest(3, 258, stored, "billing.3.usage", []byte{0x08, 0x01, 0x12, 0x01, 'a'})
	want := "01" + "0003" + "0000000000000102" + "18deb22b1e32807b" + "00000005"
	if got := hex.EncodeToString(m.Encode()); got[:46] != want || !bytes.HasSuffix(m.Encode(), []byte("billing.3.usage")) {
		t.Errorf("got %s, want it to begin with %s", got, want)
	}
	for _, entry := range []interface{ Encode() []byte }{m, proof.Rewind{Partition: 255, Sequence: 1<<64 - 1}} {
		data := entry.Encode()
		got, err := proof.Decode(data)
		if err != nil || got != entry {
			t.Errorf("decoded %+v, %v, want %+v", got, err, entry)
		}
		if _, err := proof.Decode(data[:10]); err == nil {
			t.Error("a cut entry is decoded")
		}
	}
	for _, data := range [][]byte{nil, {9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, append(proof.Rewind{}.Encode(), 0), m.Encode()[:60]} {
		if got, err := proof.Decode(data); err == nil {
			t.Errorf("%x is decoded as %+v", data, got)
		}
	}
}

// TestItemsAreTheTreeOfFields compares the root with that of golang.org/x/mod.
func TestItemsAreTheTreeOfFields(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var data []byte
		var hashes []tlog.Hash
		add := func(n int64, field []byte) {
			list, err := tlog.StoredHashes(n, field, tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
				for _, i := range indexes {
					out = append(out, hashes[i])
				}
				return out, nil
			}))
			if err != nil {
				t.Fatal(err)
			}
			hashes = append(hashes, list...)
		}
		count := 1 + random.Int64N(70)
		for n := range count {
			field := protowire.AppendTag(nil, protowire.Number(1+random.IntN(20)), protowire.BytesType)
			field = protowire.AppendBytes(field, make([]byte, random.IntN(300)))
			add(n, field)
			data = append(data, field...)
		}
		want, err := tlog.TreeHash(count, tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
			for _, i := range indexes {
				out = append(out, hashes[i])
			}
			return out, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		if got := proof.Digest(0, 1, time.Time{}, "", data).Items; got != want {
			t.Fatalf("%d fields: root %s, want %s", count, got, want)
		}
	}
	for _, data := range [][]byte{{}, {0xff}, {0x12, 0x05, 'a'}} {
		if got := proof.Digest(0, 1, time.Time{}, "", data).Items; got != tlog.RecordHash(data) {
			t.Errorf("%x: root %s, want that of one item", data, got)
		}
	}
}
