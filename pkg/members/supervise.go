package members

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"quire.dev/pkg/wait"
)

// ErrEnded means that work on a partition ended without an error although its context had not.
var ErrEnded = errors.New("ended by itself")

// Work is what Supervise does with the assigned partitions. Zero durations take the default given beside them.
type Work struct {
	// Start works on one partition until ctx ends. An error after that is ignored.
	Start func(ctx context.Context, partition int) error
	// Fatal tells after which errors of Start it would be wrong to go on: Supervise stops all partitions and
	// returns the error. After all others the partition is started again. nil: no error is fatal.
	Fatal func(error) bool
	// Partitions is how many there are, if it is not 0: a set's numbers beyond it are left out.
	Partitions int
	// Assigned, if it is not nil, is called with each set before work on any of it begins. It must not block.
	Assigned func(set []int)

	FirstPause time.Duration // before a failed partition is started again, doubled after each failure; 100 ms
	MostPause  time.Duration // longest pause; a partition that worked as long begins with FirstPause again; 10 s
	Logger     *slog.Logger  // silent if it is nil
}

// Supervise works on the assigned partitions, each in a goroutine of its own, until ctx ends. Then it waits for them
// and returns nil. Each set replaces the one before: partitions that are missing from it are stopped. A partition
// never runs twice here: one that comes back while it is stopping starts again afterwards. Supervise need not overlap
// an old replica with a new one, because a Member keeps a partition assigned until its owners serve it. After assigned
// is closed the last set stays.
func Supervise(ctx context.Context, assigned <-chan []int, work Work) error {
	if work.FirstPause <= 0 {
		work.FirstPause = 100 * time.Millisecond
	}
	if work.MostPause <= 0 {
		work.MostPause = 10 * time.Second
	}
	if work.Logger == nil {
		work.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &supervisor{work: work, ended: make(chan end), running: map[int]context.CancelFunc{}}
	err := s.run(ctx, assigned)
	cancel()
	go func() {
		s.all.Wait()
		close(s.ended)
	}()
	for e := range s.ended { // until all have stopped
		if err == nil {
			err = e.fatal
		}
	}
	return err
}

// supervisor is one Supervise. Its fields belong to that goroutine.
type supervisor struct {
	work    Work
	all     sync.WaitGroup
	ended   chan end
	running map[int]context.CancelFunc // stops a partition; an entry stays until the partition has stopped
	wanted  []int
}

// end is that of a partition's goroutine; fatal is nil if it was stopped.
type end struct {
	partition int
	fatal     error
}

func (s *supervisor) run(ctx context.Context, assigned <-chan []int) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case partitions, ok := <-assigned:
			if !ok {
				assigned = nil
				continue
			}
			s.assign(partitions)
		case e := <-s.ended:
			delete(s.running, e.partition)
			if e.fatal != nil {
				return e.fatal
			}
		}
		s.adjust(ctx)
	}
}

func (s *supervisor) assign(set []int) {
	if n := s.work.Partitions; n > 0 {
		set = slices.DeleteFunc(slices.Clone(set), func(p int) bool { return p < 0 || p >= n })
	}
	s.wanted = set
	if s.work.Assigned != nil {
		s.work.Assigned(set)
	}
}

// adjust stops partitions that are not wanted and starts those that don't run.
func (s *supervisor) adjust(ctx context.Context) {
	for p, stop := range s.running {
		if !slices.Contains(s.wanted, p) {
			stop()
		}
	}
	for _, p := range s.wanted {
		if s.running[p] != nil {
			continue // if it is still stopping, its end leads here again
		}
		work, stop := context.WithCancel(ctx)
		s.running[p] = stop
		s.all.Go(func() {
			defer stop()
			s.ended <- end{p, s.keep(work, p)}
		})
	}
}

// keep works on a partition until ctx ends or an error is fatal.
func (s *supervisor) keep(ctx context.Context, partition int) error {
	pause := wait.Backoff{First: s.work.FirstPause, Most: s.work.MostPause}
	for {
		began := time.Now()
		err := s.work.Start(ctx, partition)
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = ErrEnded
		}
		if s.work.Fatal != nil && s.work.Fatal(err) {
			return fmt.Errorf("partition %d: %w", partition, err)
		}
		if time.Since(began) >= s.work.MostPause {
			pause.Reset()
		}
		next := pause.Next()
		s.work.Logger.Warn("partition is started again", "partition", partition, "pause", next, "cause", err)
		if !wait.For(ctx, next) {
			return nil
		}
	}
}
