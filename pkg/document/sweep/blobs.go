package sweep

import (
	"context"
	"sync"
	"time"

	"quire.dev/pkg/wait"
)

// maxQueuedBlobs bounds the blobs that wait to be deleted. The sweep of orphans finds the rest.
const maxQueuedBlobs = 100_000

// Pauses between two attempts at a deletion that failed.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = time.Second
)

// Blobs deletes the blobs that no document names any more, each once it is due.
type Blobs struct {
	cfg   *Config
	mu    sync.Mutex
	due   map[string]time.Time
	added chan struct{}
}

// NewBlobs returns the queue of a partition.
func NewBlobs(cfg *Config) *Blobs {
	return &Blobs{cfg: cfg, due: map[string]time.Time{}, added: make(chan struct{}, 1)}
}

// Add queues blobs that are due at a time.
func (b *Blobs) Add(due time.Time, keys []string) {
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
	select {
	case b.added <- struct{}{}:
	default:
	}
}

func (b *Blobs) holds(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.due[key]
	return ok
}

func (b *Blobs) ripe(now time.Time) []string {
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

func (b *Blobs) done(key string) {
	b.mu.Lock()
	delete(b.due, key)
	b.mu.Unlock()
}

// Run deletes until ctx ends, then returns nil. Blobs that are left then, or after a crash, are orphans, which the
// sweep of orphans finds.
func (b *Blobs) Run(ctx context.Context) error {
	poll := time.NewTicker(b.cfg.Bounds.Poll)
	defer poll.Stop()
	retry := wait.Backoff{Initial: firstPause, Max: mostPause}
	for {
		select {
		case <-b.added:
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
		for _, key := range b.ripe(b.cfg.Clock()) {
			if err := b.delete(ctx, key); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				b.cfg.Failures.WithLabelValues("blob").Inc()
				b.cfg.Logger.Warn("a blob was not deleted and will be later", "error", err)
				retry.Wait(ctx)
				continue
			}
			retry.Reset()
			b.done(key)
			b.cfg.Swept.WithLabelValues("blobs").Inc()
		}
	}
}

func (b *Blobs) delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.CallWait)
	defer cancel()
	return b.cfg.Blobs.Delete(ctx, key)
}
