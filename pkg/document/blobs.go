package document

import (
	"context"
	"sync"
	"time"
)

// maxQueuedBlobs bounds what waits to be deleted. The sweep of orphans finds what is over.
const maxQueuedBlobs = 100_000

// blobQueue holds blobs that no document names any more.
type blobQueue struct {
	mu   sync.Mutex
	due  map[string]time.Time
	wake chan struct{}
}

func newBlobQueue() *blobQueue {
	return &blobQueue{due: map[string]time.Time{}, wake: make(chan struct{}, 1)}
}

func (q *blobQueue) add(due time.Time, keys []string) {
	if len(keys) == 0 {
		return
	}
	q.mu.Lock()
	for _, key := range keys {
		if len(q.due) < maxQueuedBlobs {
			q.due[key] = due
		}
	}
	q.mu.Unlock()
	signal(q.wake)
}

func (q *blobQueue) holds(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.due[key]
	return ok
}

func (q *blobQueue) ripe(now time.Time) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var keys []string
	for key, due := range q.due {
		if !due.After(now) {
			keys = append(keys, key)
		}
	}
	return keys
}

func (q *blobQueue) done(key string) {
	q.mu.Lock()
	delete(q.due, key)
	q.mu.Unlock()
}

// deleteBlobs empties the queue until ctx ends. What is left then, or lost in a crash, is an orphan.
func (s *session) deleteBlobs(ctx context.Context) error {
	poll := time.NewTicker(s.e.cfg.Bounds.SweepPoll)
	defer poll.Stop()
	retry := newRetry()
	for {
		select {
		case <-s.blobs.wake:
		case <-poll.C:
		case <-ctx.Done():
			return nil
		}
		for _, key := range s.blobs.ripe(s.e.deps.Clock()) {
			if err := s.deleteBlob(ctx, key); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				s.e.metrics.failures.WithLabelValues("blob").Inc()
				s.log.Warn("a blob was not deleted and will be later", "error", err)
				retry.Wait(ctx)
				continue
			}
			retry.Reset()
			s.blobs.done(key)
			s.e.metrics.swept.WithLabelValues("blobs").Inc()
		}
	}
}

func (s *session) deleteBlob(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.Bounds.ViewWait)
	defer cancel()
	return s.e.deps.Blobs.Delete(ctx, key)
}
