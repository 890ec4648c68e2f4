package billing

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/members"
	"quire.dev/services/billing/internal/partition"
)

const (
	flushWait  = 5 * time.Second // for the server to know the subscriptions of a partition
	flushPause = time.Second     // before it is asked again
)

// runPartitions folds those that are assigned until ctx ends.
func (s *Service) runPartitions(ctx context.Context, ready *readiness) error {
	source := s.cfg.Assigned
	if source == nil {
		source = members.Static(s.cfg.Partitions)
	}
	metrics := partition.NewMetrics(s.deps.Metrics)
	return members.Supervise(ctx, source, members.Work{
		Start:      func(ctx context.Context, number int) error { return s.fold(ctx, number, metrics, ready) },
		Fatal:      func(err error) bool { return !errors.Is(err, members.ErrEnded) },
		Partitions: s.cfg.PartitionCount,
		Assigned:   ready.assign, // before any begins, or the first to be ready would do for all
		Logger:     s.deps.Logger,
	})
}

// fold works on one partition until ctx ends, and tells when it answers and when it is about to stop:
// before the last snapshot, which takes a while.
func (s *Service) fold(ctx context.Context, number int, metrics *partition.Metrics, ready *readiness) error {
	p := partition.New(s.partitionConfig(number), partition.Deps{
		NC: s.deps.NC, Views: s.deps.Views, Blobs: s.deps.Blobs, Clock: s.deps.Clock, Offset: s.deps.Offset,
		Logger: s.deps.Logger, Metrics: metrics,
	})
	work, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	defer telling.Wait()
	defer cancel()
	telling.Go(func() {
		select {
		case <-p.Ready():
		case <-work.Done():
			return
		}
		if !s.flush(work, number) {
			return
		}
		ready.set(number, true)
		s.cfg.Served(number, true)
		<-work.Done()
		ready.set(number, false)
		s.cfg.Served(number, false)
	})
	return p.Run(ctx)
}

// flush waits until the server knows the subscriptions: who is told that this partition is served must
// find it so. It is tried until ctx ends, which makes it false.
func (s *Service) flush(ctx context.Context, number int) bool {
	for {
		bounded, cancel := context.WithTimeout(ctx, flushWait)
		err := s.deps.NC.FlushWithContext(bounded)
		cancel()
		if err == nil {
			return true
		}
		s.deps.Logger.Warn("partition is folded and can't be told of yet", "partition", number, "cause", err)
		select {
		case <-time.After(flushPause):
		case <-ctx.Done():
			return false
		}
	}
}

// readiness finds the moment at which all assigned partitions are served for the first time.
type readiness struct {
	reached func() // called then, once

	mu       sync.Mutex
	assigned bool // current was given
	current  []int
	served   map[int]bool
}

func newReadiness(reached func()) *readiness {
	return &readiness{reached: sync.OnceFunc(reached), served: map[int]bool{}}
}

func (r *readiness) assign(set []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current, r.assigned = set, true
	r.note()
}

func (r *readiness) set(partition int, served bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if served {
		r.served[partition] = true
	} else {
		delete(r.served, partition)
	}
	r.note()
}

// serves are the partitions that are served now, sorted.
func (r *readiness) serves() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.served))
}

// note is called with mu held. What is assigned later takes nothing back: the service went on meanwhile.
func (r *readiness) note() {
	for _, p := range r.current {
		if !r.served[p] {
			return
		}
	}
	if r.assigned {
		r.reached()
	}
}
