package contents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
	"quire.dev/pkg/event"
)

// storedFile is a blob on disk that an edge sends.
type storedFile struct {
	t       *testing.T
	folder  string
	store   *disk.Store
	whole   *wholeBlobs
	data    []byte
	content *event.Content
}

func storeFile(t *testing.T, size int) *storedFile {
	t.Helper()
	f := &storedFile{t: t, folder: t.TempDir(), data: make([]byte, size)}
	rand.NewChaCha8([32]byte{1}).Read(f.data)
	var err error
	if f.store, err = disk.Open(f.folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close() })
	if err := f.store.Create(t.Context(), "file/0/item/blob", f.data); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(f.data)
	f.whole, f.content = newWholeBlobs(f.store), &event.Content{Blob: "file/0/item/blob", SizeBytes: uint64(size), Sha256: sum[:]}
	return f
}

// send reads a range as it is sent: in pieces, as the kernel does, or as any reader.
func (f *storedFile) send(ctx context.Context, offset, length int64, byPieces bool) (got []byte, hashed bool, err error) {
	f.t.Helper()
	r, info, err := f.store.Get(f.t.Context(), f.content.Blob, offset, length)
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.Close()
	body, err := f.whole.body(ctx, r.(blob.Filed), f.content, info)
	if err != nil {
		return nil, false, err
	}
	hashed = body.sum != nil
	if !byPieces {
		got, err = io.ReadAll(body)
		return got, hashed, err
	}
	for {
		piece, err := body.Next(10_000)
		if errors.Is(err, io.EOF) {
			return got, hashed, nil
		}
		if err != nil {
			return got, hashed, err
		}
		if piece.N > 10_000 {
			f.t.Errorf("a piece has %d bytes", piece.N)
		}
		p, err := io.ReadAll(piece)
		if err != nil {
			f.t.Fatal(err)
		}
		got = append(got, p...)
	}
}

// change modifies the blob's file.
func (f *storedFile) change(change func(path string) error) {
	f.t.Helper()
	err := filepath.WalkDir(filepath.Join(f.folder, "keys"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return change(path)
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *storedFile) flipBit(at int) {
	f.t.Helper()
	f.change(func(path string) error {
		damaged := bytes.Clone(f.data)
		damaged[at] ^= 1
		// File times have a coarse clock, so an immediate change might not be visible in them.
		later := time.Now().Add(time.Second)
		return errors.Join(os.WriteFile(path, damaged, 0o600), os.Chtimes(path, later, later))
	})
}

const sentBytes = 3*wholeBuffer + 77

func TestAFileIsHashedOnceWhileItIsSent(t *testing.T) {
	f := storeFile(t, sentBytes)
	for n, byPieces := range []bool{true, false, true} {
		got, hashed, err := f.send(t.Context(), 0, -1, byPieces)
		if err != nil || !bytes.Equal(got, f.data) || hashed != (n == 0) {
			t.Errorf("time %d: %d bytes, hashed: %v, %v", n+1, len(got), hashed, err)
		}
	}
	got, _, err := f.send(t.Context(), 5, 100_000, true)
	if err != nil || !bytes.Equal(got, f.data[5:100_005]) {
		t.Errorf("a part: %d bytes, %v", len(got), err)
	}
}

// TestADamagedFileNeverEndsWell, even if it was sent intact before.
func TestADamagedFileNeverEndsWell(t *testing.T) {
	for _, sentBefore := range []bool{false, true} {
		for _, byPieces := range []bool{false, true} {
			for _, at := range []int{0, sentBytes / 2, sentBytes - 1} {
				f := storeFile(t, sentBytes)
				if sentBefore {
					if _, _, err := f.send(t.Context(), 0, -1, true); err != nil {
						t.Fatal(err)
					}
				}
				f.flipBit(at)
				for range 2 { // failures are not cached
					if got, _, err := f.send(t.Context(), 0, -1, byPieces); !errors.Is(err, errDamaged) || len(got) >= sentBytes {
						t.Errorf("byte %d: %d bytes, %v", at, len(got), err)
					}
				}
			}
		}
	}
}

// TestAFileOfAnotherSizeIsNotSent: that is known before the first byte.
func TestAFileOfAnotherSizeIsNotSent(t *testing.T) {
	for _, size := range []int64{0, sentBytes - 1, sentBytes + 1} {
		f := storeFile(t, sentBytes)
		f.change(func(path string) error { return os.Truncate(path, size) })
		if got, _, err := f.send(t.Context(), 0, -1, true); !errors.Is(err, errDamaged) || len(got) > 0 {
			t.Errorf("%d bytes: %d were sent, %v", size, len(got), err)
		}
	}
}

// TestAFileThatShrinksWhileItIsSentNeverEndsWell, verified before or not.
func TestAFileThatShrinksWhileItIsSentNeverEndsWell(t *testing.T) {
	for _, known := range []bool{false, true} {
		f := storeFile(t, sentBytes)
		if known {
			if _, _, err := f.send(t.Context(), 0, -1, true); err != nil {
				t.Fatal(err)
			}
		}
		r, info, err := f.store.Get(t.Context(), f.content.Blob, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		body, err := f.whole.body(t.Context(), r.(blob.Filed), f.content, info)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := body.Next(1000); err != nil {
			t.Fatal(err)
		}
		f.change(func(path string) error { return os.Truncate(path, 2000) })
		if got, err := io.ReadAll(body); err == nil || !known && !errors.Is(err, errDamaged) {
			t.Errorf("known: %v: %d bytes, %v", known, len(got), err)
		}
	}
}

func TestASendEndsWithItsServer(t *testing.T) {
	f := storeFile(t, sentBytes)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, _, err := f.send(ctx, 0, -1, true); !errors.Is(err, context.Canceled) || len(got) > 0 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
