package blobtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quire.dev/pkg/blob"
)

func sweep(t *testing.T, store blob.Store) {
	for _, key := range []string{"paste/1/a", "paste/1/b", "paste/10/a", "lite/1/a"} {
		put(t, store, key, []byte(key))
	}
	var cutoff time.Time // the newest of them, by the store's clock
	err := store.Sweep(t.Context(), "", future(), func(info blob.Info) error {
		if info.Size != int64(len(info.Key)) {
			t.Errorf("%s is described as %+v", info.Key, info)
		}
		if info.Modified.After(cutoff) {
			cutoff = info.Modified
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	putLater(t, store, "paste/1/c", cutoff)

	after := cutoff.Add(time.Nanosecond)
	tests := []struct {
		prefix    string
		olderThan time.Time
		want      []string
	}{
		{"paste/1/", future(), []string{"paste/1/a", "paste/1/b", "paste/1/c"}},
		{"paste/1/", after, []string{"paste/1/a", "paste/1/b"}},
		{"paste/1", after, []string{"paste/1/a", "paste/1/b", "paste/10/a"}},
		{"", after, []string{"lite/1/a", "paste/1/a", "paste/1/b", "paste/10/a"}},
		{"pas", after, []string{"paste/1/a", "paste/1/b", "paste/10/a"}},
		{"paste/1/a", after, []string{"paste/1/a"}},
		{"paste/", cutoff.Add(-time.Hour), nil},
		{"file/", future(), nil},
	}
	for _, test := range tests {
		if got := swept(t, store, test.prefix, test.olderThan); !slices.Equal(got, test.want) {
			t.Errorf("sweep of %q before %s visits %v, want %v", test.prefix, test.olderThan, got, test.want)
		}
	}
}

// putLater repeats the put until the blob is newer than cutoff by the store's clock, which may be coarse.
func putLater(t *testing.T, store blob.Store, key string, cutoff time.Time) {
	t.Helper()
	later := func() bool {
		put(t, store, key, []byte(key))
		var modified time.Time
		err := store.Sweep(t.Context(), key, future(), func(info blob.Info) error {
			modified = info.Modified
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return modified.After(cutoff)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(30 * time.Second); !later(); <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("the store's clock stands still")
		}
	}
}

func sweepDeletes(t *testing.T, store blob.Store) {
	const count = 600 // more than one batch of a folder's entries
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < count; i += 8 {
				if _, err := store.Put(t.Context(), fmt.Sprintf("many/%d", i), strings.NewReader("x"), 1); err != nil {
					t.Errorf("put: %v", err)
				}
			}
		})
	}
	wg.Wait()
	put(t, store, "kept", []byte("x"))
	visited := make(map[string]int)
	err := store.Sweep(t.Context(), "many/", future(), func(info blob.Info) error {
		visited[info.Key]++
		return store.Delete(t.Context(), info.Key)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(visited) != count {
		t.Errorf("%d blobs were visited, want %d", len(visited), count)
	}
	wantOnly(t, store, "kept")
}

func sweepStops(t *testing.T, store blob.Store) {
	put(t, store, "a/b", []byte("x"))
	put(t, store, "a/c", []byte("x"))
	stop, calls := errors.New("enough"), 0
	err := store.Sweep(t.Context(), "a/", future(), func(blob.Info) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("sweep calls %d times and returns %v, want one call and its error", calls, err)
	}
}
