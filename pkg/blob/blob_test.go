package blob_test

import (
	"errors"
	"strings"
	"testing"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/blob/disk"
)

func TestKeysAreSegmentsOfPlainCharacters(t *testing.T) {
	longest := strings.Repeat("k", blob.MaxKeyBytes)
	good := []string{"a", "paste/0/Ab3/x-1_2.bin", "...", ".a", "a..b", "-", longest}
	for _, key := range good {
		if err := blob.ValidateKey(key); err != nil {
			t.Errorf("%q is refused: %v", key, err)
		}
	}
	bad := []string{"", "/", "a/", "/a", "a//b", ".", "..", "a/../b", "a/.", "a b", "a~b", "a\\b", "ä", "\x00", longest + "k"}
	for _, key := range bad {
		if err := blob.ValidateKey(key); !errors.Is(err, blob.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", key, err)
		}
	}
}

func TestAPrefixIsWhatAKeyCanBeginWith(t *testing.T) {
	for _, prefix := range []string{"", "a", "a/", "a/b", "paste/0/"} {
		if err := blob.ValidatePrefix(prefix); err != nil {
			t.Errorf("%q is refused: %v", prefix, err)
		}
	}
	for _, prefix := range []string{"/", "a//", "../", "a b"} {
		if err := blob.ValidatePrefix(prefix); !errors.Is(err, blob.ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", prefix, err)
		}
	}
}

func TestReadIsBounded(t *testing.T) {
	store, err := disk.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Put(t.Context(), "a/b", strings.NewReader("seven b"), 7); err != nil {
		t.Fatal(err)
	}
	if data, err := blob.Read(t.Context(), store, "a/b", 7); err != nil || string(data) != "seven b" {
		t.Errorf("%q, %v", data, err)
	}
	if data, err := blob.Read(t.Context(), store, "a/b", 6); !errors.Is(err, blob.ErrTooLarge) || data != nil {
		t.Errorf("one byte too large: %q, %v", data, err)
	}
	if _, err := blob.Read(t.Context(), store, "a/c", 7); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("missing: %v", err)
	}
}
