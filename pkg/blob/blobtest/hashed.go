package blobtest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"testing"
	"testing/iotest"

	"quire.dev/pkg/blob"
)

// hashed puts blobs of sizes around a store's buffer sizes.
func hashed(t *testing.T, store blob.Store) {
	const piece = 128 << 10
	for i, size := range []int64{0, 1, piece - 1, piece, piece + 1, 2 * piece, 5<<20 + 3, 9 << 20} {
		data := contentBytes(t, uint64(i), size)
		for _, r := range []io.Reader{bytes.NewReader(data), iotest.HalfReader(bytes.NewReader(data)), iotest.DataErrReader(bytes.NewReader(data))} {
			sum := sha256.New()
			info, err := blob.PutHashed(t.Context(), store, "a/b", r, size, sum)
			if err != nil || info.Size != size {
				t.Fatalf("a put of %d bytes answers %+v, %v", size, info, err)
			}
			if want := sha256.Sum256(data); !bytes.Equal(sum.Sum(nil), want[:]) {
				t.Errorf("the hash of %d bytes is another", size)
			}
			wantContent(t, store, "a/b", data)
		}
	}
}

// lateHash fails the test on a write after the put has returned.
type lateHash struct {
	hash.Hash
	t    *testing.T
	over bool // written by the put's goroutine, read by the hashing one: the race detector reports a late write too
}

func (h *lateHash) Write(p []byte) (int, error) {
	if h.over {
		h.t.Error("it is hashed after the put has returned")
	}
	return h.Hash.Write(p)
}

// hashedFailure makes puts fail before, between and after pieces.
func hashedFailure(t *testing.T, store blob.Store) {
	cause := errors.New("the client went away")
	for _, before := range sizesAround() {
		sum := &lateHash{Hash: sha256.New(), t: t}
		_, err := blob.PutHashed(t.Context(), store, "a/b", io.MultiReader(Content(3, before), iotest.ErrReader(cause)), -1, sum)
		sum.over = true
		if !errors.Is(err, cause) {
			t.Errorf("a put that fails after %d bytes: %v, want the reader's error", before, err)
		}
		wantOnly(t, store)
	}
}
