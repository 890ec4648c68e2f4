package contents

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/semaphore"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/services/edge/internal/endpoint"
)

// wholeBlobs verifies a blob before a part of it is sent, since only the whole has a hash. It caches the result for
// wholeMemory, so that a player that requests part after part has the file read once, and a popular file is not hashed for
// each request. A request for one byte costs as much as the whole blob, so concurrent requests share one reading, which ends
// when the last of them leaves, and only a few blobs are read at a time.
type wholeBlobs struct {
	store   blob.Store
	checked *otter.Cache[wholeBlob, struct{}]
	turns   *semaphore.Weighted
	buffers sync.Pool // of *[]byte

	mu      sync.Mutex
	reading map[string]*wholeCheck // by key
}

// wholeBlob is a blob as verified. A key is never reused for another content.
type wholeBlob struct {
	key      string
	modified int64
}

// wholeCheck is one reading of a blob.
type wholeCheck struct {
	cancel  context.CancelFunc
	waiting int           // guarded by wholeBlobs.mu
	done    chan struct{} // closed once err is set
	err     error
}

const (
	wholeMemory  = time.Minute
	wholeEntries = 10_000
	wholeReads   = 4 // blobs an edge verifies at a time
	wholeBuffer  = 64 << 10
	// goneEvery is the interval of checking whether a waiting client has disconnected.
	goneEvery = 200 * time.Millisecond
)

var errHungUp = errors.New("the client has closed the connection")

func newWholeBlobs(store blob.Store) *wholeBlobs {
	return &wholeBlobs{
		store: store, turns: semaphore.NewWeighted(wholeReads), reading: make(map[string]*wholeCheck),
		buffers: sync.Pool{New: func() any { b := make([]byte, wholeBuffer); return &b }},
		checked: otter.Must(&otter.Options[wholeBlob, struct{}]{
			MaximumSize: wholeEntries, ExpiryCalculator: otter.ExpiryWriting[wholeBlob, struct{}](wholeMemory),
		}),
	}
}

// check fails with errDamaged if the blob is not what was stored. It waits for at most blobTimeout, and only while the client
// is connected.
func (w *wholeBlobs) check(ctx context.Context, content *event.Content, gone func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, blobTimeout)
	defer cancel()
	if err := w.await(ctx, content, gone); err != nil {
		return endpoint.Unavailable(fmt.Errorf("check content: %w", err))
	}
	return nil
}

func (w *wholeBlobs) await(ctx context.Context, content *event.Content, gone func() bool) error {
	if known, err := w.known(ctx, content); known || err != nil {
		return err
	}
	c := w.join(ctx, content)
	defer w.leave(content.Blob, c)
	look := time.NewTicker(goneEvery)
	defer look.Stop()
	for {
		select {
		case <-c.done:
			return c.err
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if gone() {
				return errHungUp
			}
		}
	}
}

// known reports whether the blob was verified a moment ago.
func (w *wholeBlobs) known(ctx context.Context, content *event.Content) (bool, error) {
	r, info, err := w.store.Get(ctx, content.Blob, 0, 1)
	if err != nil {
		return false, err
	}
	return w.remembers(content, info), r.Close()
}

func (w *wholeBlobs) remembers(content *event.Content, info blob.Info) bool {
	_, ok := w.checked.GetIfPresent(wholeBlob{content.Blob, info.Modified.UnixNano()})
	return ok
}

func (w *wholeBlobs) remember(content *event.Content, info blob.Info) {
	w.checked.Set(wholeBlob{content.Blob, info.Modified.UnixNano()}, struct{}{})
}

// join joins or starts the check of a blob. leave must follow.
func (w *wholeBlobs) join(ctx context.Context, content *event.Content) *wholeCheck {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.reading[content.Blob]
	if c == nil {
		c = &wholeCheck{done: make(chan struct{})}
		ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx)) // shared by all who wait, until the last one leaves
		w.reading[content.Blob] = c
		go func() {
			defer close(c.done)
			c.err = w.read(ctx, content)
		}()
	}
	c.waiting++
	return c
}

// leave ends the check once nobody waits for it.
func (w *wholeBlobs) leave(key string, c *wholeCheck) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.waiting--; c.waiting > 0 {
		return
	}
	c.cancel()
	if w.reading[key] == c {
		delete(w.reading, key)
	}
}

func (w *wholeBlobs) read(ctx context.Context, content *event.Content) (err error) {
	if err := w.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer w.turns.Release(1)
	r, info, err := w.store.Get(ctx, content.Blob, 0, -1)
	if err != nil {
		return err
	}
	whole := &checkedReader{ReadCloser: r, hash: sha256.New(), left: content.Length(), want: content.Sha256}
	buffer := w.buffers.Get().(*[]byte)
	defer w.buffers.Put(buffer)
	if _, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{whole}, *buffer); err == nil {
		w.remember(content, info)
	}
	return errors.Join(err, r.Close())
}
