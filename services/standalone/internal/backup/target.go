package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"quire.dev/pkg/blob"
)

// Below is a store whose keys all begin with prefix, which is empty or ends with a slash.
func Below(store blob.Store, prefix string) blob.Store {
	if prefix == "" {
		return store
	}
	return below{store, prefix}
}

type below struct {
	blob.Store
	prefix string
}

func (b below) Put(ctx context.Context, key string, r io.Reader, size int64) (blob.Info, error) {
	return b.Store.Put(ctx, b.prefix+key, r, size)
}

func (b below) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	return b.Store.Get(ctx, b.prefix+key, offset, length)
}

func (b below) Delete(ctx context.Context, key string) error {
	return b.Store.Delete(ctx, b.prefix+key)
}

func (b below) Sweep(ctx context.Context, prefix string, olderThan time.Time, visit func(blob.Info) error) error {
	return b.Store.Sweep(ctx, b.prefix+prefix, olderThan, func(info blob.Info) error {
		info.Key = strings.TrimPrefix(info.Key, b.prefix)
		return visit(info)
	})
}

// target is the store that is written to, and what earlier runs left there.
type target struct {
	blob.Store
	finished, draft *Manifest // of earlier runs; nil: none

	mu      sync.Mutex
	written map[string]int64 // sizes of all objects, by key
}

func openTarget(ctx context.Context, store blob.Store) (*target, error) {
	t := &target{Store: store, written: map[string]int64{}}
	var err error
	if t.finished, err = readManifest(ctx, store, manifestKey); err != nil {
		return nil, err
	}
	// A run that was killed in the middle leaves an unreadable draft.
	t.draft, _ = readManifest(ctx, store, draftKey)
	err = sweepAll(ctx, store, "", func(info blob.Info) error {
		if !isPart(info.Key) && info.Key != manifestKey && info.Key != draftKey {
			return fmt.Errorf("%s is no part of a backup: choose an empty place", info.Key)
		}
		t.written[info.Key] = info.Size
		return nil
	})
	return t, err
}

// sweepAll visits all blobs.
func sweepAll(ctx context.Context, store blob.Store, prefix string, visit func(blob.Info) error) error {
	const ahead = 24 * time.Hour // the store's clock may be
	return store.Sweep(ctx, prefix, time.Now().Add(ahead), visit)
}

// isPart reports whether a key is one of those that a backup writes.
func isPart(key string) bool {
	kind, _, _ := strings.Cut(key, "/")
	return kind == "journals" || kind == "models" || kind == "blobs" || kind == "folder"
}

// earlier are the manifests of earlier runs, the newest first.
func (t *target) earlier() (list []*Manifest) {
	for _, m := range []*Manifest{t.draft, t.finished} {
		if m != nil {
			list = append(list, m)
		}
	}
	return list
}

func (t *target) installation() string {
	for _, m := range t.earlier() {
		return m.Installation
	}
	return ""
}

// has reports whether the store has a part of an earlier run.
func (t *target) has(p Part) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	size, ok := t.written[p.Key]
	return ok && size == p.Bytes
}

// put writes a part. size may be -1 for unknown.
func (t *target) put(ctx context.Context, key string, r io.Reader, size int64) (Part, error) {
	sum := sha256.New()
	info, err := blob.PutHashed(ctx, t.Store, key, r, size, sum)
	if err != nil {
		return Part{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written[key] = info.Size
	return Part{Key: key, Bytes: info.Size, SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// save writes what is done so far, for a run that continues, and what an earlier unfinished run did that this one has not come to.
func (w *work) save(ctx context.Context) error {
	draft := *w.manifest
	draft.Blobs, draft.Journals = w.blobs.listAll(), slices.Clone(draft.Journals)
	if w.to.draft != nil {
		for _, j := range w.to.draft.Journals {
			if !slices.ContainsFunc(draft.Journals, func(own Journal) bool { return own.Stream == j.Stream }) {
				draft.Journals = append(draft.Journals, j)
			}
		}
	}
	return draft.write(ctx, w.to, draftKey)
}

// finish writes the manifest, and deletes what is not part of it.
func (w *work) finish(ctx context.Context) error {
	w.manifest.Blobs = w.blobs.list()
	if err := w.manifest.write(ctx, w.to, manifestKey); err != nil {
		return err
	}
	needed := map[string]bool{manifestKey: true}
	for _, p := range w.manifest.Parts() {
		needed[p.Key] = true
	}
	for key := range w.to.written {
		if !needed[key] {
			if err := w.to.Delete(ctx, key); err != nil {
				return err
			}
		}
	}
	return w.to.Delete(ctx, draftKey)
}
