package blobtest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/blob"
)

func create(t *testing.T, store blob.Store) {
	if err := store.Create(t.Context(), "mark", []byte("first")); err != nil {
		t.Fatal(err)
	}
	put(t, store, "a/b/c/d", []byte("put"))
	for _, key := range []string{"mark", "a/b/c/d"} {
		if err := store.Create(t.Context(), key, []byte("second")); !errors.Is(err, blob.ErrExists) {
			t.Errorf("create of %s, which exists: %v, want ErrExists", key, err)
		}
	}
	wantContent(t, store, "mark", []byte("first"))
	wantContent(t, store, "a/b/c/d", []byte("put"))
	if err := store.Delete(t.Context(), "mark"); err != nil {
		t.Fatal(err)
	}
	if err := store.Create(t.Context(), "mark", nil); err != nil {
		t.Errorf("create after the delete: %v", err)
	}
	wantContent(t, store, "mark", nil)
}

func concurrentCreates(t *testing.T, store blob.Store) {
	const rounds, creators = 5, 4
	for round := range rounds {
		key := "new/" + string(rune('a'+round))
		var winner atomic.Int32
		var wg sync.WaitGroup
		for i := range creators {
			wg.Go(func() {
				err := store.Create(t.Context(), key, []byte{byte(i + 1)})
				switch {
				case err == nil && !winner.CompareAndSwap(0, int32(i+1)):
					t.Errorf("%s is created twice", key)
				case err != nil && !errors.Is(err, blob.ErrExists):
					t.Errorf("create %s: %v", key, err)
				}
			})
		}
		wg.Wait()
		wantContent(t, store, key, []byte{byte(winner.Load())})
	}
}

func move(t *testing.T, store blob.Store) {
	content := contentBytes(t, 3, 100_000)
	put(t, store, "paste/1/item/a", content)
	put(t, store, "paste-trash/1/item/a", []byte("replaced"))
	put(t, store, "paste/1/item/b", []byte("stays"))
	var cutoff time.Time
	err := store.Sweep(t.Context(), "", future(), func(info blob.Info) error {
		if info.Modified.After(cutoff) {
			cutoff = info.Modified
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	putLater(t, store, "paste/1/item/b", cutoff) // the store's clock has moved
	if err := store.Move(t.Context(), "paste/1/item/a", "paste-trash/1/item/a"); err != nil {
		t.Fatal(err)
	}
	wantContent(t, store, "paste-trash/1/item/a", content)
	wantOnly(t, store, "paste-trash/1/item/a", "paste/1/item/b")
	if old := swept(t, store, "paste-trash/", cutoff.Add(time.Nanosecond)); len(old) != 0 {
		t.Errorf("%v is as old as before the move", old)
	}
	if err := store.Move(t.Context(), "paste/1/item/a", "paste-trash/1/item/a"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("move of what is not there: %v, want ErrNotFound", err)
	}
	wantContent(t, store, "paste-trash/1/item/a", content)
	// And back, into a folder that was always empty.
	if err := store.Move(t.Context(), "paste-trash/1/item/a", "other/2/item/a"); err != nil {
		t.Fatal(err)
	}
	wantContent(t, store, "other/2/item/a", content)
}
