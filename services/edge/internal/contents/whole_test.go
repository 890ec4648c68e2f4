package contents

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quire.dev/pkg/blob"
	"quire.dev/pkg/event"
	"quire.dev/pkg/eventually"
	"quire.dev/services/edge/internal/fault"
)

// slowBlobs has the same content under all keys. Readers of a whole blob wait for open.
type slowBlobs struct {
	blob.Store
	content []byte
	open    chan struct{}

	whole, most, ended atomic.Int32 // readings of a whole blob: current, maximum, finished
	begun              atomic.Int32
}

func (s *slowBlobs) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, blob.Info, error) {
	info := blob.Info{Key: key, Size: int64(len(s.content)), Modified: time.Unix(1, 0)}
	if length >= 0 {
		return io.NopCloser(bytes.NewReader(s.content[offset : offset+length])), info, nil
	}
	s.begun.Add(1)
	now := s.whole.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	return &slowReader{Reader: bytes.NewReader(s.content), ctx: ctx, store: s}, info, nil
}

type slowReader struct {
	*bytes.Reader
	ctx   context.Context
	store *slowBlobs
}

func (r *slowReader) Read(p []byte) (int, error) {
	select {
	case <-r.store.open:
		return r.Reader.Read(p)
	case <-r.ctx.Done():
		return 0, r.ctx.Err()
	}
}

func (r *slowReader) Close() error {
	r.store.whole.Add(-1)
	r.store.ended.Add(1)
	return nil
}

func newSlowBlobs() (*slowBlobs, *wholeBlobs, func(key string) *event.Content) {
	s := &slowBlobs{content: bytes.Repeat([]byte("content "), 20_000), open: make(chan struct{})}
	sum := sha256.Sum256(s.content)
	return s, newWholeBlobs(s), func(key string) *event.Content {
		return &event.Content{Blob: key, SizeBytes: uint64(len(s.content)), Sha256: sum[:]}
	}
}

func stays() bool { return false }

func TestABlobIsCheckedOnceForAllAndFewAtATime(t *testing.T) {
	store, w, content := newSlowBlobs()
	const blobs, callers = 3 * wholeReads, 5
	var all sync.WaitGroup
	for n := range blobs * callers {
		all.Go(func() {
			if err := w.check(t.Context(), content(fmt.Sprint(n%blobs)), stays); err != nil {
				t.Error(err)
			}
		})
	}
	eventually.True(t, "all wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		waiting := 0
		for _, c := range w.reading {
			waiting += c.waiting
		}
		return waiting == blobs*callers && store.begun.Load() == wholeReads
	})
	close(store.open)
	all.Wait()
	if begun, most := store.begun.Load(), store.most.Load(); begun != blobs || most != wholeReads {
		t.Errorf("%d readings for %d blobs, up to %d at a time, want %d", begun, blobs, most, wholeReads)
	}
	if err := w.check(t.Context(), content("0"), stays); err != nil || store.begun.Load() != blobs {
		t.Errorf("once more: %v, %d readings", err, store.begun.Load())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.reading) > 0 {
		t.Errorf("%d checks are left", len(w.reading))
	}
}

func TestACheckEndsWithTheLastWhoWaits(t *testing.T) {
	store, w, content := newSlowBlobs()
	var first, second atomic.Bool // have disconnected
	ended := make(chan error, 2)
	go func() { ended <- w.check(t.Context(), content("a"), first.Load) }()
	eventually.True(t, "it is read", func() bool { return store.begun.Load() == 1 })
	go func() { ended <- w.check(t.Context(), content("a"), second.Load) }()
	eventually.True(t, "both wait", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.reading["a"].waiting == 2
	})
	first.Store(true)
	if err := <-ended; !errors.Is(err, errHungUp) || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("the first: %v", err)
	}
	if store.ended.Load() != 0 {
		t.Error("the check has ended although one waits")
	}
	second.Store(true)
	if err := <-ended; !errors.Is(err, errHungUp) {
		t.Errorf("the second: %v", err)
	}
	eventually.True(t, "nobody reads", func() bool { return store.ended.Load() == 1 })
	close(store.open)
	if err := w.check(t.Context(), content("a"), stays); err != nil || store.begun.Load() != 2 {
		t.Errorf("a later one: %v, %d readings", err, store.begun.Load())
	}
}

func TestACheckDoesNotWaitForEver(t *testing.T) {
	_, w, content := newSlowBlobs()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.check(ctx, content("a"), stays); !errors.Is(err, context.Canceled) || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("%v", err)
	}
	damaged := content("b")
	damaged.Sha256 = make([]byte, sha256.Size)
	store := w.store.(*slowBlobs)
	close(store.open)
	for range 2 { // failures are not cached
		if err := w.check(t.Context(), damaged, stays); !errors.Is(err, errDamaged) {
			t.Errorf("%v", err)
		}
	}
}
