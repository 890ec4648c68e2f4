// Package blobtest tests an implementation of blob.Store against what the interface promises.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"quire.dev/pkg/blob"
)

const (
	largeBytes = 20 << 20
	// largeAllocBytes bounds the memory allocated while a blob of largeBytes is put or read. It is less than the blob.
	largeAllocBytes = 12 << 20
)

// Run tests the stores that open returns. Each must be empty and independent of the others.
func Run(t *testing.T, open func(t *testing.T) blob.Store) {
	tests := []struct {
		guarantee string
		test      func(*testing.T, blob.Store)
	}{
		{"what was put is read back whole", putAndGet},
		{"what is put is hashed in its order", hashed},
		{"a put that fails hashes nothing once it has returned", hashedFailure},
		{"a range is the part asked for, cut at the end", ranges},
		{"a put replaces what was there", overwrite},
		{"a blob that is not there is not found", notFound},
		{"a delete removes and may be repeated", deleteTwice},
		{"a create takes no other blob's place", create},
		{"of concurrent creates of one key one succeeds", concurrentCreates},
		{"a move gives another key and a new age", move},
		{"a reader that fails midway leaves nothing", failingReader},
		{"a failed put keeps what was there before", failingOverwrite},
		{"a reader of another size than announced leaves nothing", wrongSize},
		{"a reader that never gets on leaves nothing", stuckReader},
		{"a context that ends stops a put and leaves nothing", cancelledPut},
		{"a context that ended stops every call", endedContext},
		{"a context that ends stops a reader", cancelledGet},
		{"concurrent puts of many keys are all kept", concurrentPuts},
		{"concurrent puts of one key never mix", concurrentOverwrites},
		{"a sweep visits what is old enough under its prefix", sweep},
		{"a sweep reaches every blob and may delete it", sweepDeletes},
		{"a sweep stops at the visitor's error", sweepStops},
		{"a large blob is streamed in bounded memory", large},
		{"bad keys, prefixes, sizes and ranges are refused", badArguments},
	}
	for _, test := range tests {
		t.Run(test.guarantee, func(t *testing.T) { test.test(t, open(t)) })
	}
}

// Content returns a reproducible stream of bytes, different for each seed.
func Content(seed uint64, size int64) io.Reader {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return io.LimitReader(rand.NewChaCha8(key), size)
}

func contentBytes(t *testing.T, seed uint64, size int64) []byte {
	t.Helper()
	data, err := io.ReadAll(Content(seed, size))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func put(t *testing.T, store blob.Store, key string, data []byte) blob.Info {
	t.Helper()
	info, err := store.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
	return info
}

func get(t *testing.T, store blob.Store, key string, offset, length int64) ([]byte, blob.Info) {
	t.Helper()
	r, info, err := store.Get(t.Context(), key, offset, length)
	if err != nil {
		t.Fatalf("get %s: %v", key, err)
	}
	data, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatalf("read %s: %v", key, err)
	}
	return data, info
}

func wantContent(t *testing.T, store blob.Store, key string, want []byte) {
	t.Helper()
	got, info := get(t, store, key, 0, -1)
	if !bytes.Equal(got, want) {
		t.Fatalf("%s holds %d bytes that are not the %d bytes put", key, len(got), len(want))
	}
	if info.Key != key || info.Size != int64(len(want)) {
		t.Fatalf("%s is described as %+v", key, info)
	}
}

// wantOnly fails unless the store has exactly these keys, of any age.
func wantOnly(t *testing.T, store blob.Store, keys ...string) {
	t.Helper()
	slices.Sort(keys)
	if got := swept(t, store, "", future()); !slices.Equal(got, keys) {
		t.Fatalf("the store holds %v, want %v", got, keys)
	}
}

func swept(t *testing.T, store blob.Store, prefix string, olderThan time.Time) []string {
	t.Helper()
	var keys []string
	err := store.Sweep(t.Context(), prefix, olderThan, func(info blob.Info) error {
		keys = append(keys, info.Key)
		return nil
	})
	if err != nil {
		t.Fatalf("sweep %q: %v", prefix, err)
	}
	slices.Sort(keys)
	return keys
}

func future() time.Time { return time.Now().Add(time.Hour) }

func putAndGet(t *testing.T, store blob.Store) {
	sizes := []int64{0, 1, 1000, 64<<10 + 1, 5 << 20, 5<<20 + 1}
	for i, size := range sizes {
		data := contentBytes(t, uint64(i), size)
		key := fmt.Sprintf("paste/0/%d/Ab-_.", i)
		info := put(t, store, key, data)
		if info.Key != key || info.Size != size || info.Modified.IsZero() {
			t.Fatalf("the put of %s answers %+v", key, info)
		}
		wantContent(t, store, key, data)

		unknown := fmt.Sprintf("unknown/%d", i)
		info, err := store.Put(t.Context(), unknown, iotest.HalfReader(bytes.NewReader(data)), -1)
		if err != nil || info.Size != size {
			t.Fatalf("the put of %s answers %+v, %v", unknown, info, err)
		}
		wantContent(t, store, unknown, data)
	}
	longest := strings.Repeat("k", blob.MaxKeyBytes)
	put(t, store, longest, []byte("x"))
	wantContent(t, store, longest, []byte("x"))
}

func ranges(t *testing.T, store blob.Store) {
	const size = 300_000
	data := contentBytes(t, 7, size)
	put(t, store, "file/1", data)
	put(t, store, "file/empty", nil)
	tests := []struct{ offset, length, from, to int64 }{
		{0, -1, 0, size},
		{0, 1, 0, 1},
		{0, 0, 0, 0},
		{1, 200_000, 1, 200_001},
		{size - 1, 1, size - 1, size},
		{size - 1, -1, size - 1, size},
		{size - 10, 1000, size - 10, size},
		{size, -1, size, size},
		{size + 1, 5, size, size},
		{5, 1<<63 - 1, 5, size},
	}
	for _, test := range tests {
		got, info := get(t, store, "file/1", test.offset, test.length)
		if !bytes.Equal(got, data[test.from:test.to]) {
			t.Errorf("%d bytes from %d gave %d bytes, not [%d, %d)", test.length, test.offset, len(got), test.from, test.to)
		}
		if info.Size != size {
			t.Errorf("%d bytes from %d say that the blob has %d bytes, want %d", test.length, test.offset, info.Size, size)
		}
	}
	for _, offset := range []int64{0, 3} {
		if got, info := get(t, store, "file/empty", offset, 5); len(got) != 0 || info.Size != 0 {
			t.Errorf("the empty blob gave %d bytes and the size %d", len(got), info.Size)
		}
	}
}

func overwrite(t *testing.T, store blob.Store) {
	put(t, store, "a/b", contentBytes(t, 1, 100_000))
	old, _, err := store.Get(t.Context(), "a/b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	second := contentBytes(t, 2, 10)
	put(t, store, "a/b", second)
	wantContent(t, store, "a/b", second)
	got, err := io.ReadAll(old)
	if closed := old.Close(); closed != nil {
		t.Errorf("close the reader of the replaced blob: %v", closed)
	}
	if err == nil && !bytes.Equal(got, contentBytes(t, 1, 100_000)) {
		t.Errorf("the reader opened before gave %d bytes that are not the old blob", len(got))
	}
	wantOnly(t, store, "a/b")
}

func notFound(t *testing.T, store blob.Store) {
	put(t, store, "a/b", []byte("x"))
	for _, length := range []int64{-1, 0, 5} {
		if _, _, err := store.Get(t.Context(), "a/c", 0, length); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("get of %d bytes: %v, want ErrNotFound", length, err)
		}
	}
}

func deleteTwice(t *testing.T, store blob.Store) {
	put(t, store, "a/b", []byte("x"))
	put(t, store, "a/c", []byte("y"))
	for range 2 {
		if err := store.Delete(t.Context(), "a/b"); err != nil {
			t.Fatalf("delete: %v", err)
		}
		if _, _, err := store.Get(t.Context(), "a/b", 0, -1); !errors.Is(err, blob.ErrNotFound) {
			t.Fatalf("get after delete: %v, want ErrNotFound", err)
		}
	}
	wantOnly(t, store, "a/c")
}

func cancelledGet(t *testing.T, store blob.Store) {
	if _, err := store.Put(t.Context(), "a/b", Content(9, largeBytes), largeBytes); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, _, err := store.Get(ctx, "a/b", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
		t.Fatalf("read the beginning: %v", err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) || errors.Is(err, blob.ErrUnavailable) {
		t.Errorf("read on: %v, want context.Canceled", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func concurrentPuts(t *testing.T, store blob.Store) {
	const writers, each = 8, 5
	var wg sync.WaitGroup
	var want []string
	for writer := range writers {
		for i := range each {
			want = append(want, fmt.Sprintf("k/%d/%d", writer, i))
		}
		wg.Go(func() {
			for i := range each {
				key, size := fmt.Sprintf("k/%d/%d", writer, i), int64(1000*(writer+1))
				if _, err := store.Put(t.Context(), key, Content(uint64(writer*each+i), size), -1); err != nil {
					t.Errorf("put %s: %v", key, err)
				}
			}
		})
	}
	wg.Wait()
	wantOnly(t, store, want...)
	for writer := range writers {
		for i := range each {
			seed, size := uint64(writer*each+i), int64(1000*(writer+1))
			wantContent(t, store, fmt.Sprintf("k/%d/%d", writer, i), contentBytes(t, seed, size))
		}
	}
}

func concurrentOverwrites(t *testing.T, store blob.Store) {
	const writers, rounds = 4, 10
	versions := make([][]byte, writers)
	for i := range versions {
		versions[i] = contentBytes(t, uint64(i), int64(40_000*(i+1)))
	}
	put(t, store, "a/b", versions[0])
	var wg sync.WaitGroup
	for _, version := range versions {
		wg.Go(func() {
			for range rounds {
				if _, err := store.Put(t.Context(), "a/b", bytes.NewReader(version), int64(len(version))); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	isVersion := func(data []byte) bool {
		return slices.ContainsFunc(versions, func(version []byte) bool { return bytes.Equal(version, data) })
	}
	for range rounds {
		r, info, err := store.Get(t.Context(), "a/b", 0, -1)
		if err != nil {
			t.Errorf("get: %v", err)
			continue
		}
		data, err := io.ReadAll(r)
		if err == nil && (!isVersion(data) || info.Size != int64(len(data))) {
			t.Errorf("read %d bytes, described as %d, that are none of the versions", len(data), info.Size)
		}
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	wg.Wait()
	if data, _ := get(t, store, "a/b", 0, -1); !isVersion(data) {
		t.Error("what is left is none of the versions")
	}
}

func large(t *testing.T, store blob.Store) {
	for _, size := range []int64{largeBytes, -1} {
		allocated := allocatedBy(func() {
			if _, err := store.Put(t.Context(), "large/1", Content(11, largeBytes), size); err != nil {
				t.Fatal(err)
			}
		})
		if allocated > largeAllocBytes {
			t.Errorf("putting %d bytes allocates %d", largeBytes, allocated)
		}
		var equal bool
		allocated = allocatedBy(func() {
			r, _, err := store.Get(t.Context(), "large/1", 0, -1)
			if err != nil {
				t.Fatal(err)
			}
			equal = sameStream(t, r, Content(11, largeBytes))
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
		if allocated > largeAllocBytes {
			t.Errorf("getting %d bytes allocates %d", largeBytes, allocated)
		}
		if !equal {
			t.Error("the large blob is not the one put")
		}
	}
}

func allocatedBy(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func sameStream(t *testing.T, a, b io.Reader) bool {
	t.Helper()
	left, right := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(a, left)
		m, other := io.ReadFull(b, right)
		if n != m || !bytes.Equal(left[:n], right[:m]) {
			return false
		}
		if err != nil || other != nil {
			ended := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
			if !ended(err) || !ended(other) {
				t.Errorf("read: %v, %v", err, other)
			}
			return ended(err) && ended(other)
		}
	}
}

func badArguments(t *testing.T, store blob.Store) {
	keys := []string{
		"", "/", "a/", "/a", "a//b", ".", "..", "a/..", "../a", "a/./b", "a b", "a\\b", "a~b", "a\x00b", "a\nb", "ä", "a?b",
		strings.Repeat("k", blob.MaxKeyBytes+1),
	}
	nothing := func(blob.Info) error { return nil }
	for _, key := range keys {
		_, put := store.Put(t.Context(), key, strings.NewReader("x"), 1)
		_, _, get := store.Get(t.Context(), key, 0, -1)
		errs := map[string]error{
			"put": put, "get": get, "delete": store.Delete(t.Context(), key), "create": store.Create(t.Context(), key, nil),
			"move from": store.Move(t.Context(), key, "a/b"), "move to": store.Move(t.Context(), "a/b", key),
		}
		if key != "" && key != "a/" { // both are good prefixes
			errs["sweep"] = store.Sweep(t.Context(), key, future(), nothing)
		}
		for call, err := range errs {
			if !errors.Is(err, blob.ErrInvalid) {
				t.Errorf("%s of the key %q: %v, want ErrInvalid", call, key, err)
			}
		}
	}
	if _, err := store.Put(t.Context(), "a/b", strings.NewReader("x"), -2); !errors.Is(err, blob.ErrInvalid) {
		t.Errorf("put of -2 bytes: %v, want ErrInvalid", err)
	}
	for _, r := range [][2]int64{{-1, 5}, {0, -2}} {
		if _, _, err := store.Get(t.Context(), "a/b", r[0], r[1]); !errors.Is(err, blob.ErrInvalid) {
			t.Errorf("get of %d bytes from %d: %v, want ErrInvalid", r[1], r[0], err)
		}
	}
	wantOnly(t, store)
}
