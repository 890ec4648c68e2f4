package web

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
)

// wholeBlobs reads a blob to its end before a part of it is sent: only the whole has a hash. What it found is remembered for
// wholeMemory, so that a player that asks for part after part has the file read once.
type wholeBlobs struct {
	store   blob.Store
	asking  singleflight.Group
	checked *otter.Cache[wholeBlob, struct{}]
}

// wholeBlob is a blob as it was when it was checked. A key is never given to another content.
type wholeBlob struct {
	key      string
	modified int64
}

const (
	wholeMemory  = time.Minute
	wholeEntries = 10_000
)

func newWholeBlobs(store blob.Store) *wholeBlobs {
	return &wholeBlobs{store: store, checked: otter.Must(&otter.Options[wholeBlob, struct{}]{
		MaximumSize: wholeEntries, ExpiryCalculator: otter.ExpiryWriting[wholeBlob, struct{}](wholeMemory),
	})}
}

// check fails with errDamaged where the blob is not what was stored. Of several callers one reads it.
func (w *wholeBlobs) check(ctx context.Context, content *event.Content) error {
	_, err, _ := w.asking.Do(content.Blob, func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, blobTimeout)
		defer cancel()
		return nil, w.read(ctx, content)
	})
	if err != nil {
		return unavailable(fmt.Errorf("check content: %w", err))
	}
	return nil
}

func (w *wholeBlobs) read(ctx context.Context, content *event.Content) (err error) {
	r, info, err := w.store.Get(ctx, content.Blob, 0, -1)
	if err != nil {
		return err
	}
	known := wholeBlob{key: content.Blob, modified: info.Modified.UnixNano()}
	if _, ok := w.checked.GetIfPresent(known); !ok {
		whole := &checkedReader{ReadCloser: r, hash: sha256.New(), left: int64(content.SizeBytes), want: content.Sha256}
		if _, err = io.Copy(io.Discard, whole); err == nil {
			w.checked.Set(known, struct{}{})
		}
	}
	return errors.Join(err, r.Close())
}
