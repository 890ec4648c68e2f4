package blobtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"quire.dev/pkg/blob"
)

// sizesAround are the bytes read before the failure: none, less than a buffer, and more than a part of an upload.
func sizesAround() []int64 { return []int64{0, 1000, 11 << 20} }

func failingReader(t *testing.T, store blob.Store) {
	cause := errors.New("the client went away")
	for _, before := range sizesAround() {
		for _, size := range []int64{-1, before + 10} {
			r := io.MultiReader(Content(3, before), iotest.ErrReader(cause))
			_, err := store.Put(t.Context(), "a/b", r, size)
			if !errors.Is(err, cause) || errors.Is(err, blob.ErrUnavailable) {
				t.Errorf("put that fails after %d bytes: %v, want the reader's error", before, err)
			}
			wantOnly(t, store)
		}
	}
}

func failingOverwrite(t *testing.T, store blob.Store) {
	data := contentBytes(t, 4, 5000)
	put(t, store, "a/b", data)
	for _, before := range sizesAround() {
		r := io.MultiReader(Content(5, before), iotest.ErrReader(io.ErrUnexpectedEOF))
		if _, err := store.Put(t.Context(), "a/b", r, -1); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("put that fails after %d bytes: %v, want the reader's error", before, err)
		}
		wantContent(t, store, "a/b", data)
	}
}

func wrongSize(t *testing.T, store blob.Store) {
	tests := []struct{ holds, announced int64 }{
		{0, 1}, {1, 0}, {999, 1000}, {1001, 1000}, {11 << 20, 11<<20 - 1}, {11 << 20, 11<<20 + 1}, {6 << 20, 5 << 20},
	}
	for _, test := range tests {
		_, err := store.Put(t.Context(), "a/b", Content(6, test.holds), test.announced)
		if !errors.Is(err, blob.ErrSize) {
			t.Errorf("%d bytes announced as %d: %v, want ErrSize", test.holds, test.announced, err)
		}
		wantOnly(t, store)
	}
}

// readerFunc is a function as an io.Reader.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func stuckReader(t *testing.T, store blob.Store) {
	stuck := readerFunc(func([]byte) (int, error) { return 0, nil })
	if _, err := store.Put(t.Context(), "a/b", stuck, -1); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("put: %v, want io.ErrNoProgress", err)
	}
	wantOnly(t, store)
}

func cancelledPut(t *testing.T, store blob.Store) {
	for _, before := range sizesAround() {
		for _, atEnd := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			last := readerFunc(func(p []byte) (int, error) {
				cancel()
				if atEnd {
					return 0, io.EOF
				}
				p[0] = 'x'
				return 1, nil
			})
			_, err := store.Put(ctx, "a/b", io.MultiReader(Content(8, before), last), -1)
			if !errors.Is(err, context.Canceled) || errors.Is(err, blob.ErrUnavailable) {
				t.Errorf("put cancelled after %d bytes: %v, want context.Canceled", before, err)
			}
			wantOnly(t, store)
			cancel()
		}
	}
}

func endedContext(t *testing.T, store blob.Store) {
	put(t, store, "a/b", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"put": func() error {
			_, err := store.Put(ctx, "a/c", strings.NewReader("y"), 1)
			return err
		},
		"get": func() error {
			_, _, err := store.Get(ctx, "a/b", 0, -1)
			return err
		},
		"delete": func() error { return store.Delete(ctx, "a/b") },
		"sweep": func() error {
			return store.Sweep(ctx, "", future(), func(blob.Info) error { return nil })
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, context.Canceled) || errors.Is(err, blob.ErrUnavailable) {
			t.Errorf("%s: %v, want context.Canceled", name, err)
		}
	}
	wantOnly(t, store, "a/b")
}
