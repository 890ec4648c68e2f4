package members

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// ErrEnded says that a partition's work ended by itself while it should have gone on.
var ErrEnded = errors.New("ended by itself")

// Work is what Supervise does for each assigned partition. Zero durations take the defaults said beside
// them.
type Work struct {
	// Start works on one partition until ctx ends, then returns; the error is not looked at then.
	Start func(ctx context.Context, partition int) error
	// Fatal tells the failures after which going on would be wrong; Supervise then stops all and
	// returns. nil: none; all others are tried again.
	Fatal func(error) bool
	// Partitions, where it is not 0, is how many there are: others that a set names are left out.
	Partitions int
	// Assigned is told each set before any of its partitions begins, and must not block; nil: nobody.
	// None is left out: what was taken away for a moment begins anew.
	Assigned func(set []int)

	FirstPause time.Duration // before a failed partition is started again, doubled each time; 100 ms
	MostPause  time.Duration // at most, and how long it has to work for the pause to begin anew; 10 s
	Logger     *slog.Logger  // silent where it is nil
}

// Supervise works on the assigned partitions, each in a goroutine of its own, until ctx ends; it then
// waits for them and returns nil. A set replaces the one before: what is missing from it is stopped, and
// never runs twice here, even if it comes back meanwhile. There is no overlap at this level, since a
// Member keeps a partition assigned until its next replica serves it. After assigned is closed the last
// set stays.
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

// supervisor belongs to the goroutine of Supervise.
type supervisor struct {
	work    Work
	all     sync.WaitGroup
	ended   chan end
	running map[int]context.CancelFunc // until the partition has stopped
	wanted  []int
}

// end of a partition's goroutine; fatal is nil where it was stopped.
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

// adjust stops what is not wanted and starts what is missing.
func (s *supervisor) adjust(ctx context.Context) {
	for p, stop := range s.running {
		if !slices.Contains(s.wanted, p) {
			stop()
		}
	}
	for _, p := range s.wanted {
		if s.running[p] != nil {
			continue // or it is still stopping: its end brings us here again
		}
		work, stop := context.WithCancel(ctx)
		s.running[p] = stop
		s.all.Go(func() {
			defer stop()
			s.ended <- end{p, s.keep(work, p)}
		})
	}
}

// keep works on a partition until ctx ends or a failure is fatal.
func (s *supervisor) keep(ctx context.Context, partition int) error {
	pause := s.work.FirstPause
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
			pause = s.work.FirstPause
		}
		s.work.Logger.Warn("partition is started again", "partition", partition, "pause", pause, "cause", err)
		wait := time.NewTimer(pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil
		}
		pause = min(2*pause, s.work.MostPause)
	}
}
