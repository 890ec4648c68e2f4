package document

import (
	"context"
	"sync"
	"time"
)

// maxQueuedBlobs bounds the blobs waiting for deletion. The orphan sweep finds the rest.
const maxQueuedBlobs = 100_000

// blobDeleter deletes blobs that no document names any more, each when it is due.
type blobDeleter struct {
	*scope
	mu    sync.Mutex
	due   map[string]time.Time
	added chan struct{}
}

func newBlobDeleter(s *scope) *blobDeleter {
	return &blobDeleter{scope: s, due: map[string]time.Time{}, added: make(chan struct{}, 1)}
}

func (b *blobDeleter) add(due time.Time, keys []string) {
	if len(keys) == 0 {
		return
	}
	b.mu.Lock()
	for _, key := range keys {
		if len(b.due) < maxQueuedBlobs {
			b.due[key] = due
		}
	}
	b.mu.Unlock()
	signal(b.added)
}

func (b *blobDeleter) holds(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.due[key]
	return ok
}

func (b *blobDeleter) ripe(now time.Time) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var keys []string
	for key, due := range b.due {
		if !due.After(now) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (b *blobDeleter) done(key string) {
	b.mu.Lock()
	delete(b.due, key)
	b.mu.Unlock()
}

// run deletes until ctx ends, then returns nil. The orphanSweeper finds blobs left then or after a crash.
func (b *blobDeleter) run(ctx context.Context) error {
	poll := time.NewTicker(b.cfg.Bounds.SweepPoll)
	defer poll.Stop()
	retry := newRetry()
	for {
		select {
		case <-b.added:
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
		for _, key := range b.ripe(b.deps.Clock()) {
			if err := b.delete(ctx, key); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				b.metrics.failures.WithLabelValues("blob").Inc()
				b.log.Warn("a blob could not be deleted and will be retried", "error", err)
				retry.Wait(ctx)
				continue
			}
			retry.Reset()
			b.done(key)
			b.metrics.swept.WithLabelValues("blobs").Inc()
		}
	}
}

func (b *blobDeleter) delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Bounds.ViewWait)
	defer cancel()
	return b.deps.Blobs.Delete(ctx, key)
}
